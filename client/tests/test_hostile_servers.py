"""Servers that answer slowly, out of order, twice, too often, or with times that cannot be true: each client goes on.

The other modules test lost answers, bad signatures, 409, 503 and expired cursors; this one has what they leave out.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from edge_script import SECRET as EDGE_SECRET
from edge_script import acks, command, polled, refusal
from edge_script import reply as edge_reply
from event_script import JWKS, LOGIN, event, metadata, polls, reply, sets
from event_script import SECRET as CLIENT_SECRET
from flavours import QuickAsyncRuntime, QuickBlockingRuntime
from scripted_server import Reply, ScriptedServer, Slow, data, error

from restante_client import (
    BlockingCollectorClient,
    BlockingDeviceClient,
    BlockingEventReceiver,
    CollectorClient,
    CollectorOptions,
    Command,
    EventReceiver,
    ReceiverOptions,
    Result,
)
from restante_client.calls import PAUSE_SECONDS_MAX, retry_after
from restante_client.device.models import Session
from restante_client.device.store import DeviceStore
from restante_client.errors import Conflict, Unreachable

ENDLESS = "9" * 400


def quick(**more: Any) -> Any:
    return QuickBlockingRuntime(**more)


class TestDevice:
    def device(self, server: ScriptedServer, folder: Path) -> Any:
        store = DeviceStore(folder)
        store.save_registration(7, Session("secret-access", "secret-refresh"))
        store.close()
        runtime = quick()
        device: Any = BlockingDeviceClient(server.url, folder, runtime=runtime)
        device.pauses = runtime.pauses
        return device

    def updates(self, cursor: str, *numbers: int, interval: str = "300") -> Reply:
        signals = [{"type": "x", "ts_ms": number, "ref": {"n": number}} for number in numbers]
        return data({"cursor": cursor, "signals": signals}, X_Poll_Interval=interval)

    def handle(self, device: Any, count: int) -> list[int]:
        found: list[int] = []

        def handler(signal: Any) -> None:
            found.append(signal.ref["n"])
            if len(found) == count:
                device.stop()

        device.run(handler)
        device.close()
        return found

    def test_older_response_after_a_newer_one_repeats_nothing(self, server: ScriptedServer, tmp_path: Path) -> None:
        server.add(self.updates("c2", 1, 2, 3), self.updates("c1", 1, 2), self.updates("c3", 1, 2, 3, 4))
        assert self.handle(self.device(server, tmp_path), 4) == [1, 2, 3, 4]

    @pytest.mark.parametrize("interval", [ENDLESS, "-5", "soon", "٣"])
    def test_interval_that_cannot_be_true_is_bounded_or_ignored(
        self, server: ScriptedServer, tmp_path: Path, interval: str
    ) -> None:
        device = self.device(server, tmp_path)
        header = {"ETag": "c0", "X-Poll-Interval": interval.encode().decode("latin-1")}
        server.add(Reply(204, b"", header), self.updates("c1", 1))
        assert self.handle(device, 1) == [1]
        assert device.pauses == [0, PAUSE_SECONDS_MAX if interval == ENDLESS else 300]

    def test_conflict_without_a_new_cursor_keeps_the_old_one(self, server: ScriptedServer, tmp_path: Path) -> None:
        device = self.device(server, tmp_path)
        server.add(self.updates("c1", 1), error(409, code=40901, params={}))
        with pytest.raises(Unreachable, match="names no other"):
            device.run(lambda signal: None)
        assert device.store.cursor == "c1"
        device.close()

    @pytest.mark.parametrize("seconds", [0, -1, 1e300])
    def test_lifetime_of_tokens_that_cannot_be_true_does_no_harm(
        self, server: ScriptedServer, tmp_path: Path, seconds: float
    ) -> None:
        device = self.device(server, tmp_path)
        renewed = {"access_token": "new", "refresh_token": "new", "expires_in": seconds}
        server.add(error(401), data(renewed), self.updates("c1", 1))
        assert self.handle(device, 1) == [1]


class TestCollector:
    def collector(self, server: ScriptedServer, folder: Path, **options: Any) -> Any:
        runtime = quick()
        made = CollectorOptions(secrets=[EDGE_SECRET], **options)
        collector: Any = BlockingCollectorClient(server.url, "ed_secret", folder, made, runtime=runtime)
        collector.pauses = runtime.pauses
        return collector

    def carry_out_all(self, collector: Any) -> list[int]:
        executed: list[int] = []

        def execute(found: Command) -> Result:
            executed.append(found.attempt)
            return Result()

        for found in collector.poll():
            collector.carry_out(found, execute)
        collector.flush()
        return executed

    def test_command_twice_in_one_response_is_executed_once(self, server: ScriptedServer, tmp_path: Path) -> None:
        with self.collector(server, tmp_path) as collector:
            server.add(polled(command(), command()), edge_reply({"status": "ok"}))
            assert self.carry_out_all(collector) == [1]

    def test_older_attempt_after_a_newer_one_is_dropped(self, server: ScriptedServer, tmp_path: Path) -> None:
        with self.collector(server, tmp_path) as collector:
            server.add(polled(command(attempt=2)), edge_reply({"status": "ok"}), polled(command(attempt=1)))
            assert self.carry_out_all(collector) == [2]
            assert self.carry_out_all(collector) == []
        assert [ack["attempt"] for ack in acks(server)] == [2]

    @pytest.mark.parametrize("server_time", ["9999-12-31T23:59:59Z", "2026-01-18T10:30:00Z"])
    def test_server_time_after_the_lease_executes_nothing(
        self, server: ScriptedServer, tmp_path: Path, server_time: str
    ) -> None:
        with self.collector(server, tmp_path) as collector:
            server.add(polled(command(), server_time=server_time))
            assert self.carry_out_all(collector) == []

    def test_busy_server_is_left_alone_as_long_as_it_says(self, server: ScriptedServer, tmp_path: Path) -> None:
        with self.collector(server, tmp_path) as collector:
            server.add(refusal(429, "RATE_LIMITED", Retry_After="40"), refusal(503, "X", Retry_After=ENDLESS))
            server.add(polled(command()), edge_reply({"status": "ok"}))

            def execute(found: Command) -> Result:
                collector.stop()
                return Result()

            collector.run(execute)
            assert 40 <= collector.pauses[0] <= 41
            assert PAUSE_SECONDS_MAX <= collector.pauses[1] <= PAUSE_SECONDS_MAX + 1

    def test_slow_body_is_given_up(self, server: ScriptedServer, tmp_path: Path) -> None:
        options = CollectorOptions(secrets=[EDGE_SECRET], timeout_seconds=0.2)
        server.add(Slow(), Slow())
        with self.collector(server, tmp_path, timeout_seconds=0.2) as collector, pytest.raises(Unreachable):
            collector.poll()

        async def poll() -> None:
            runtime = QuickAsyncRuntime()
            async with CollectorClient(server.url, "t", tmp_path / "a", options, runtime=runtime) as collector:
                await collector.poll()

        with pytest.raises(Unreachable):
            asyncio.run(poll())


class TestReceiver:
    def receiver(self, server: ScriptedServer, folder: Path, **options: Any) -> Any:
        runtime = quick()
        made = ReceiverOptions(**options)
        receiver: Any = BlockingEventReceiver(server.url, CLIENT_SECRET, folder, made, runtime=runtime)
        receiver.pauses = runtime.pauses
        return receiver

    def test_events_out_of_order_and_repeated_are_stored_once(self, server: ScriptedServer, tmp_path: Path) -> None:
        with self.receiver(server, tmp_path) as receiver:
            server.add(*LOGIN, sets(event("b"), event("c")), reply(JWKS), sets(event("a"), event("b")), sets())
            for _ in range(3):
                receiver.poll()
            found: list[str] = []
            receiver.handle_stored(lambda each: found.append(each.jti))
        assert found == ["b", "c", "a"]
        assert [body.get("ack") for body in polls(server)] == [None, ["b", "c"], ["b", "a"]]

    @pytest.mark.parametrize("seconds", [0, -5, 1e300])
    def test_lifetime_of_a_token_that_cannot_be_true_does_no_harm(
        self, server: ScriptedServer, tmp_path: Path, seconds: float
    ) -> None:
        token = reply({"access_token": "t", "expires_in": seconds})
        with self.receiver(server, tmp_path) as receiver:
            server.add(metadata, token, sets(event("a")), reply(JWKS))
            if seconds <= 0:
                server.add(token)
            server.add(sets())
            receiver.poll()
            receiver.poll()
        assert polls(server)[1]["ack"] == ["a"]

    def test_busy_server_is_left_alone_as_long_as_it_says(self, server: ScriptedServer, tmp_path: Path) -> None:
        with self.receiver(server, tmp_path) as receiver:
            server.add(*LOGIN, Reply(429, b"", {"Retry-After": "40"}), sets(event("a")), reply(JWKS), sets())
            receiver.run(lambda each: receiver.stop())
            assert 40 <= receiver.pauses[0] <= 41

    def test_conflict_is_an_error_and_acknowledges_nothing(self, server: ScriptedServer, tmp_path: Path) -> None:
        with self.receiver(server, tmp_path) as receiver:
            server.add(*LOGIN, sets(event("a")), reply(JWKS), reply({"err": "paused"}, 409))
            receiver.poll()
            with pytest.raises(Conflict):
                receiver.poll()
            assert receiver.store.to_acknowledge(10) == ["a"]

    def test_slow_body_is_given_up_and_stores_nothing(self, server: ScriptedServer, tmp_path: Path) -> None:
        server.add(*LOGIN, Slow(), *LOGIN, Slow())
        # The time for a response is that of the option and of the long poll; an immediate poll has no more.
        with self.receiver(server, tmp_path, timeout_seconds=0.5) as receiver, pytest.raises(Unreachable):
            receiver.poll(is_immediate=True)

        async def poll() -> None:
            options, runtime = ReceiverOptions(timeout_seconds=0.5), QuickAsyncRuntime()
            async with EventReceiver(server.url, CLIENT_SECRET, tmp_path / "a", options, runtime=runtime) as receiver:
                await receiver.poll(is_immediate=True)

        with pytest.raises(Unreachable):
            asyncio.run(poll())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (ENDLESS, PAUSE_SECONDS_MAX),
        ("Fri, 31 Dec 9999 23:59:59 GMT", PAUSE_SECONDS_MAX),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("-1", None),
        ("later", None),
    ],
)
def test_retry_after_is_at_most_a_day(text: str, seconds: float | None) -> None:
    assert retry_after({"Retry-After": text}) == seconds
