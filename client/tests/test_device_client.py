"""A device against a server that plays a script, in both flavours."""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from flavours import InLoop, QuickAsyncRuntime, QuickBlockingRuntime
from scripted_server import Lost, Reply, Request, ScriptedServer, Slow, data, error

from restante_client import BlockingDeviceClient, DeviceClient, DeviceDescription, DeviceOptions
from restante_client.device.client import DEFAULTS
from restante_client.device.models import Session
from restante_client.device.store import DeviceStore
from restante_client.errors import (
    BadRequest,
    CursorExpired,
    EnrolmentRefused,
    Forbidden,
    SessionEnded,
    StateError,
    Unreachable,
)
from restante_client.runtime import BlockingRuntime

MakeDevice = Callable[..., Any]
SESSION = {"access_token": "secret-access", "refresh_token": "secret-refresh", "expires_in": 3600}
RENEWED = {"access_token": "secret-access-2", "refresh_token": "secret-refresh-2", "expires_in": 3600}
CODE = {
    "device_code": "secret-code",
    "user_code": "ABCD-EFGH",
    "verification_uri": "http://x/device",
    "verification_uri_complete": "http://x/device?user_code=ABCD-EFGH",
    "interval": 5,
    "expires_in": 900,
}


def signal(number: int, kind: str = "install.updated") -> dict[str, Any]:
    return {"type": kind, "ts_ms": 1000 + number, "ref": {"version": number}}


def updates(cursor: str, *numbers: int, interval: str = "300") -> Reply:
    body = {"cursor": cursor, "signals": [signal(number) for number in numbers]}
    return data(body, ETag=cursor, X_Poll_Interval=interval)


def idle(cursor: str, **headers: str) -> Reply:
    return Reply(204, b"", {"ETag": cursor, **({name.replace("_", "-"): value for name, value in headers.items()})})


@pytest.fixture(params=["asyncio", "blocking"])
def make(
    request: pytest.FixtureRequest, server: ScriptedServer, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> Iterator[MakeDevice]:
    """Make a device with a state folder; its pauses take no time."""
    made: list[Any] = []

    def make(options: DeviceOptions = DEFAULTS, *, is_enrolled: bool = True, folder: str = "state") -> Any:
        if is_enrolled:
            store = DeviceStore(tmp_path / folder)
            if store.session is None:
                store.save_registration(7, Session("secret-access", "secret-refresh"))
            store.close()
        if request.param == "blocking":
            runtime: Any = QuickBlockingRuntime()
            device: Any = BlockingDeviceClient(server.url, tmp_path / folder, options, runtime=runtime)
        else:
            runtime = QuickAsyncRuntime()
            device = InLoop(loop, DeviceClient(server.url, tmp_path / folder, options, runtime=runtime))
        device.pauses = runtime.pauses
        made.append(device)
        return device

    yield make
    for device in made:
        device.close()


def handle(device: Any, count: int) -> list[int]:
    """Handle this many signals, then stop when the next one is requested."""
    found: list[int] = []

    def handler(signal: Any) -> None:
        found.append(signal.ref["version"])
        if len(found) == count:
            device.stop()

    device.run(handler)
    return found


class TestEnrolment:
    def test_device_registers_after_approval(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make(is_enrolled=False)
        server.add(
            data(CODE),
            data({"status": "authorization_pending"}),
            data({"status": "slow_down"}),
            data({"status": "ready", "user_id": 1, "registration_code": "rc", "registration_code_ttl": 900}),
            data({"device": {"id": 7, "name": "till"}, "session": SESSION}),
        )
        shown: list[Any] = []
        device.enrol(shown.append, DeviceDescription(name="till", platform="linux"))
        assert [code.user_code for code in shown] == ["ABCD-EFGH"]
        assert device.is_enrolled
        assert device.store.device_id == 7
        assert device.pauses == [5, 10]
        registration = server.requests[-1].json
        assert registration["registration_code"] == "rc"
        assert registration["name"] == "till"
        assert registration["device_public_id"] == device.store.public_id
        assert "model" not in registration

    def test_registered_device_gets_new_tokens_without_registration(
        self, make: MakeDevice, server: ScriptedServer
    ) -> None:
        device = make()
        server.add(data(CODE), data({"status": "ready", "user_id": 1, **RENEWED}))
        device.enrol(lambda code: None)
        assert server.requests[1].json == {"action": "device_poll", "device_code": "secret-code", "device_id": 7}
        assert device.store.session.access_token == "secret-access-2"

    @pytest.mark.parametrize("status", ["access_denied", "expired"])
    def test_refused_device_has_no_tokens(self, make: MakeDevice, server: ScriptedServer, status: str) -> None:
        device = make(is_enrolled=False)
        server.add(data(CODE), data({"status": status}))
        with pytest.raises(EnrolmentRefused, match=status):
            device.enrol(lambda code: None)
        assert not device.is_enrolled

    def test_lost_answers_do_not_end_the_enrolment(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make(is_enrolled=False)
        server.add(data(CODE), Lost(), error(503, Retry_After="20"), data({"status": "access_denied"}))
        with pytest.raises(EnrolmentRefused):
            device.enrol(lambda code: None)
        assert device.pauses[0] >= 5
        assert device.pauses[1] >= 20

    def test_poll_before_enrolment_is_refused(self, make: MakeDevice) -> None:
        with pytest.raises(StateError, match="not enrolled"):
            make(is_enrolled=False).poll()


class TestUpdates:
    def test_first_poll_sends_no_cursor_and_later_ones_send_it(self, make: MakeDevice, server: ScriptedServer) -> None:
        server.add(updates("c1", 1), updates("c2", 2, 3))
        assert handle(make(), 3) == [1, 2, 3]
        assert "If-None-Match" not in server.requests[0].headers
        assert server.requests[1].headers["If-None-Match"] == "c1"
        assert server.requests[0].headers["Authorization"] == "Bearer secret-access"

    def test_failed_handler_keeps_the_cursor(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        server.add(updates("c1", 1, 2, 3))

        def fail_at_two(signal: Any) -> None:
            if signal.ref["version"] == 2:
                raise ValueError("cannot")

        with pytest.raises(ValueError, match="cannot"):
            device.run(fail_at_two)
        assert device.store.cursor is None

    def test_signals_handled_before_the_failure_are_not_repeated(
        self, make: MakeDevice, server: ScriptedServer
    ) -> None:
        device = make()
        server.add(updates("c1", 1, 2, 3))
        for found in device.updates():
            if found.ref["version"] == 2:
                break
        # Another process of the same device starts with the stored state.
        server.add(updates("c1", 1, 2, 3))
        again = make()
        assert handle(again, 2) == [2, 3]
        assert again.store.cursor == "c1"

    def test_duplicates_are_left_out(self, make: MakeDevice, server: ScriptedServer) -> None:
        server.add(updates("c1", 1, 2), updates("c2", 1, 2, 3))
        assert handle(make(), 3) == [1, 2, 3]

    def test_idle_device_stores_the_cursor_and_follows_the_interval(
        self, make: MakeDevice, server: ScriptedServer
    ) -> None:
        device = make()
        server.add(idle("c0", X_Poll_Interval="123"), updates("c1", 1))
        assert handle(device, 1) == [1]
        assert server.requests[1].headers["If-None-Match"] == "c0"
        assert device.pauses == [0, 123]

    def test_short_interval_becomes_a_long_poll(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        server.add(idle("c0", X_Poll_Interval="15"), updates("c1", 1))
        assert handle(device, 1) == [1]
        assert "wait=15" in server.requests[1].path
        assert device.pauses == [0, 0]

    def test_long_poll_that_ends_early_is_followed_by_a_pause(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        device.expect(600)
        server.add(idle("c0"), idle("c0"), updates("c1", 1))
        assert handle(device, 1) == [1]
        assert ["wait=25" in request.path for request in server.requests] == [False, True, True]
        assert device.pauses[:2] == [0, 0]
        assert 20 < device.pauses[2] <= 25

    def test_idle_pauses_grow_without_an_interval_and_a_signal_resets_them(
        self, make: MakeDevice, server: ScriptedServer
    ) -> None:
        device = make()
        server.add(*[idle("c0")] * 6, updates("c1", 1), idle("c1"), updates("c2", 2))
        assert handle(device, 2) == [1, 2]
        assert device.pauses == [0, 300, 900, 3600, 21_600, 86_400, 86_400, 0, 300]

    def test_response_with_the_same_cursor_is_idle(self, make: MakeDevice, server: ScriptedServer) -> None:
        """A server that repeats itself does not make the device call in a tight loop."""
        device = make()
        server.add(updates("c1", 1), updates("c1", 1), updates("c2", 2))
        assert handle(device, 2) == [1, 2]
        assert device.pauses == [0, 0, 300]

    @pytest.mark.parametrize("step", [Lost(), error(503), error(500), Reply(200, b"nonsense"), Reply(302)])
    def test_failures_are_repeated_with_back_off(self, make: MakeDevice, server: ScriptedServer, step: Any) -> None:
        device = make()
        server.add(step, step, updates("c1", 1))
        assert handle(device, 1) == [1]
        assert 0 <= device.pauses[1] <= 1
        assert 0 <= device.pauses[2] <= 2

    def test_program_may_pause_instead(self, make: MakeDevice, server: ScriptedServer) -> None:
        paused: list[Any] = []
        device = make(DeviceOptions(pause=lambda seconds, failure: paused.append((seconds, type(failure).__name__))))
        server.add(error(429, Retry_After="40"), idle("c0", X_Poll_Interval="123"), updates("c1", 1))
        assert handle(device, 1) == [1]
        assert [name for _, name in paused] == ["NoneType", "Unavailable", "NoneType"]
        assert paused[1][0] >= 40
        assert (paused[2][0], device.pauses) == (123, [])

    def test_slow_body_is_given_up(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make(DeviceOptions(timeout_seconds=0.2))
        server.add(Slow())
        with pytest.raises(Unreachable):
            device.poll()

    def test_retry_after_is_the_least_pause(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        server.add(error(429, Retry_After="40"), updates("c1", 1))
        assert handle(device, 1) == [1]
        assert 40 <= device.pauses[1] <= 41

    def test_expired_cursor_calls_resync_and_continues(self, make: MakeDevice, server: ScriptedServer) -> None:
        resynced: list[CursorExpired] = []
        device = make(DeviceOptions(resync=resynced.append))
        params = {"action": "full_resync", "reason": "cursor_trimmed", "reset_cursor": "c9"}
        server.add(updates("c1", 1), error(409, "Cursor expired.", code=40901, params=params), updates("c10", 10))
        assert handle(device, 2) == [1, 10]
        assert [found.reason for found in resynced] == ["cursor_trimmed"]
        assert server.requests[2].headers["If-None-Match"] == "c9"

    def test_failed_resync_keeps_the_cursor(self, make: MakeDevice, server: ScriptedServer) -> None:
        def fail(error: CursorExpired) -> None:
            raise OSError("disk full")

        device = make(DeviceOptions(resync=fail))
        server.add(updates("c1", 1), error(409, code=40901, params={"reset_cursor": "c9"}))
        with pytest.raises(OSError, match="disk full"):
            device.run(lambda signal: None)
        assert device.store.cursor == "c1"

    @pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (400, BadRequest)])
    def test_refusal_ends_the_loop(
        self, make: MakeDevice, server: ScriptedServer, status: int, kind: type[Exception]
    ) -> None:
        server.add(error(status))
        with pytest.raises(kind):
            make().run(lambda signal: None)


class TestTokens:
    def test_refused_token_is_refreshed_and_the_poll_repeated(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        server.add(error(401), data(RENEWED), updates("c1", 1))
        assert handle(device, 1) == [1]
        assert server.requests[1].json == {"refresh_token": "secret-refresh"}
        assert server.requests[2].headers["Authorization"] == "Bearer secret-access-2"

    def test_token_is_refreshed_before_it_expires(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        device.store.save_session(Session("old", "secret-refresh", 30))
        server.add(data(RENEWED), idle("c0"))
        device.poll()
        assert [request.path.split("?")[0] for request in server.requests] == [
            "/auth/refresh",
            "/apiv1/devices/self/updates",
        ]

    def test_new_tokens_are_on_disk_before_they_are_used(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        seen: list[str] = []

        def look(request: Request) -> Reply:
            seen.append(device.store.session.access_token)
            return idle("c0")

        server.add(error(401), data(RENEWED), look)
        device.poll()
        assert seen == ["secret-access-2"]

    def test_ended_session_is_reported(self, make: MakeDevice, server: ScriptedServer) -> None:
        server.add(error(401), error(401, "the refresh token was already used", code=10003))
        with pytest.raises(SessionEnded, match="already used"):
            make().poll()

    def test_tokens_of_another_process_are_used(self, make: MakeDevice, server: ScriptedServer) -> None:
        """The other process refreshed while this one waited for its answer: this one must not refresh again."""
        device, other = make(), make()

        def refresh_elsewhere(request: Request) -> Reply:
            other.store.save_session(Session("secret-access-2", "secret-refresh-2"))
            return error(401)

        server.add(refresh_elsewhere, idle("c0"))
        device.poll()
        assert server.requests[1].headers["Authorization"] == "Bearer secret-access-2"

    def test_lost_refresh_is_repeated_as_a_failure(self, make: MakeDevice, server: ScriptedServer) -> None:
        server.add(error(401), Lost(), error(401), data(RENEWED), updates("c1", 1))
        assert handle(make(), 1) == [1]


class TestSelfRoutes:
    def test_install_config_and_its_version(self, make: MakeDevice, server: ScriptedServer) -> None:
        item = {"id": "a", "type": "copy", "from": ["x"], "to": ["y"], "new_field": 1}
        server.add(data({"id": 3, "version": 6, "installs": [item], "installs_hash": "h"}), Reply(304))
        device = make()
        config = device.install_config()
        assert (config.version, config.installs[0].sources, config.installs[0].targets) == (6, ["x"], ["y"])
        assert device.install_config(known_version=6) is None
        assert server.requests[1].headers["If-None-Match"] == '"6"'

    def test_null_fields_of_an_item_count_as_missing(self, make: MakeDevice, server: ScriptedServer) -> None:
        item = {"id": "a", "type": "exec", "cmd": "true", "depends_on": None, "env": None, "continue_on_error": None}
        server.add(data({"id": 3, "version": 6, "installs": [item]}))
        (found,) = make().install_config().installs
        assert (found.depends_on, found.env, found.continue_on_error) == ([], {}, False)

    def test_report_sends_the_schema(self, make: MakeDevice, server: ScriptedServer) -> None:
        server.add(Reply(204))
        make().report({"agent_version": "1.2"})
        assert server.requests[0].json == {
            "schema": "certctrl.device.notify.v1",
            "events": [{"agent_version": "1.2"}],
        }

    def test_body_of_another_shape_is_no_crash(self, make: MakeDevice, server: ScriptedServer) -> None:
        server.add(data({"id": "three"}))
        with pytest.raises(Unreachable, match="not what the protocol says"):
            make().install_config()


class TestSecrets:
    def test_no_secret_in_repr_or_errors(self, make: MakeDevice, server: ScriptedServer) -> None:
        device = make()
        server.add(error(401), Lost())
        with pytest.raises(Unreachable) as raised:
            device.poll()
        texts = [repr(device), repr(device.store.session), str(raised.value), repr(raised.value)]
        assert not [text for text in texts if "secret" in text]

    def test_state_is_readable_by_its_owner_alone(self, make: MakeDevice, tmp_path: Path) -> None:
        device = make()
        key = device.store.private_key
        assert bytes(device.store.private_key) == bytes(key)
        folder = tmp_path / "state"
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {"state.db", "device.key"} <= modes.keys()
        assert set(modes.values()) == {0o600}


def test_stop_from_another_thread_ends_a_pause(server: ScriptedServer, tmp_path: Path) -> None:
    store = DeviceStore(tmp_path)
    store.save_registration(7, Session("a", "r"))
    store.close()
    is_paused = threading.Event()

    class Pausing(BlockingRuntime):
        async def sleep(self, seconds: float) -> None:
            if seconds > 0:
                is_paused.set()
            await super().sleep(seconds)

    server.add(idle("c0", X_Poll_Interval="3000"))
    device = BlockingDeviceClient(server.url, tmp_path, runtime=Pausing(verify=False))
    thread = threading.Thread(target=device.run, args=(lambda signal: None,))
    thread.start()
    assert is_paused.wait(30)
    device.stop()
    thread.join(30)
    assert not thread.is_alive()
    device.close()


def test_blocking_client_refuses_a_coroutine_function(server: ScriptedServer, tmp_path: Path) -> None:
    store = DeviceStore(tmp_path)
    store.save_registration(7, Session("a", "r"))
    store.close()
    server.add(updates("c1", 1))

    async def handler(signal: object) -> None:
        raise AssertionError("never called to its end")

    with BlockingDeviceClient(server.url, tmp_path) as device, pytest.raises(TypeError, match="asyncio"):
        device.run(handler)


def test_asyncio_client_awaits_a_coroutine_function(server: ScriptedServer, tmp_path: Path) -> None:
    store = DeviceStore(tmp_path)
    store.save_registration(7, Session("a", "r"))
    store.close()
    server.add(updates("c1", 1))
    found: list[int] = []

    async def run() -> None:
        async with DeviceClient(server.url, tmp_path) as device:

            async def handler(signal: Any) -> None:
                await asyncio.sleep(0)
                found.append(signal.ref["version"])
                device.stop()

            await device.run(handler)

    asyncio.run(run())
    assert found == [1]


@pytest.mark.parametrize("url", ["ftp://x", "restante.example", "http://"])
def test_wrong_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="url: expected http"):
        BlockingDeviceClient(url, tmp_path)
