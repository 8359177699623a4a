"""`restante demo` as its user starts it: a real process with everything that it starts."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.demo.demo_process import END_SECONDS, DemoProcess, eventually, is_running, running_demo

pytestmark = [pytest.mark.slow, pytest.mark.embedded]

STORY_SECONDS = 240.0


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    with running_demo(tmp_path_factory.mktemp("demo")) as demo:
        yield demo


@pytest.fixture(scope="module")
def admin(demo: DemoProcess) -> Iterator[httpx.Client]:
    with demo.sign_in("astrid@demo.example") as client:
        yield client


def items(client: httpx.Client, path: str) -> list[dict[str, Any]]:
    """The items of the first page of a list."""
    response = client.get(path)
    assert response.status_code == 200, response.text
    body = response.json()
    found = body.get("data", body)
    listed: list[dict[str, Any]] = found["items"] if isinstance(found, dict) else found
    return listed


def has_items(client: httpx.Client, path: str, count: int) -> bool:
    return len(items(client, path)) >= count


def test_session_link_signs_in_once(demo: DemoProcess) -> None:
    with httpx.Client(timeout=30) as browser:
        redirect = browser.get(demo.link)
        assert redirect.status_code == 303
        # A browser sends a cookie to every port of its host.
        cookie = redirect.headers["set-cookie"].partition(";")[0]
        console = browser.get(redirect.headers["location"], headers={"cookie": cookie})
        again = browser.get(demo.link)
    assert console.status_code == 200
    assert "astrid@demo.example" in console.text
    assert again.status_code == 410


@pytest.mark.parametrize(
    "email", [f"{name}@demo.example" for name in ("astrid", "bjarne", "carla", "dmitri", "emma", "finn")]
)
def test_people_of_the_screen_can_sign_in(demo: DemoProcess, email: str) -> None:
    assert email in demo.text
    with demo.sign_in(email) as client:
        assert client.get("/console").status_code == 200


def test_addresses_of_the_screen_exist(demo: DemoProcess, admin: httpx.Client) -> None:
    addresses = [word for line in demo.lines for word in line.split() if word.startswith(f"{demo.url}/console")]
    assert len(addresses) >= 8
    assert {address: admin.get(address).status_code for address in addresses} == dict.fromkeys(addresses, 200)


def test_fleet_is_there_with_tags_certificates_and_a_revoked_device(admin: httpx.Client) -> None:
    assert admin.get("/apiv1/devices/counts").json()["data"]["total"]["value"] == 32
    assert len(items(admin, "/apiv1/devices?status=revoked")) == 1
    assert items(admin, "/apiv1/devices?tag=pilot")
    assert items(admin, "/apiv1/devices?certificate_expires_before=14d")
    assert len(items(admin, "/apiv1/groups")) == 3


def test_devices_apply_their_config(admin: httpx.Client) -> None:
    eventually(lambda: len(items(admin, "/apiv1/devices?config_version=applied")) >= 10, STORY_SECONDS)


def test_device_agent_applies_its_config(admin: httpx.Client) -> None:
    def applied() -> bool:
        (device,) = items(admin, "/apiv1/devices?tag=agent")
        return bool(device["config_applied"] == 1)

    eventually(applied, STORY_SECONDS)


def test_one_rollout_ends_and_one_pauses_itself(admin: httpx.Client) -> None:
    def states() -> dict[str, str]:
        return {each["name"]: each["state"] for each in items(admin, "/apiv1/rollouts")}

    eventually(lambda: states().get("Card reader firmware 4.2") == "paused", STORY_SECONDS, states)
    eventually(lambda: states().get("Opening hours of December") == "done", STORY_SECONDS, states)
    failed = items(admin, "/apiv1/devices?config_version=failed")
    assert failed
    assert all("reader-v1" in device["tags"] for device in failed)


def test_commands_wait_for_approval_were_denied_and_succeed(admin: httpx.Client) -> None:
    edge = "/api/edge/v1/admin"
    assert items(admin, f"{edge}/commands?status=pending_approval")
    assert items(admin, f"{edge}/commands?result_code=DENIED")
    eventually(lambda: items(admin, f"{edge}/commands?status=succeeded"), STORY_SECONDS)


def test_miners_report_and_rules_fire(admin: httpx.Client) -> None:
    edge = "/api/edge/v1/admin"
    for site in items(admin, f"{edge}/sites"):
        path = f"{edge}/telemetry?site_id={site['id']}"
        eventually(partial(has_items, admin, path, 2), STORY_SECONDS)

    def by_rules() -> list[Any]:
        return [each for each in items(admin, f"{edge}/commands?limit=500") if each["created_by"].startswith("rule:")]

    eventually(by_rules, STORY_SECONDS)


def test_clients_receive_one_is_slow_and_one_sends_errors(admin: httpx.Client) -> None:
    def statuses() -> dict[str, Any]:
        return {each["client_id"]: each for each in items(admin, "/admin/events/clients")}

    eventually(lambda: statuses()["ledgerline"]["errored"] > 0, STORY_SECONDS, statuses)
    eventually(lambda: statuses()["pocketbook"]["waiting"] > 0, STORY_SECONDS, statuses)
    for client in ("fernwood", "halyard"):
        path = f"/admin/events?client_id={client}&status=acknowledged"
        eventually(partial(has_items, admin, path, 1), STORY_SECONDS)


def test_signal_for_an_unknown_device_is_a_failed_outbox_row(admin: httpx.Client) -> None:
    eventually(lambda: items(admin, "/apiv1/outbox?source=shop&status=FAILED"), STORY_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_no_process_and_no_folder(tmp_path: Path, number: signal.Signals) -> None:
    with running_demo(tmp_path) as demo:
        started = demo.descendants()
        assert len(started) >= 10
        assert list(tmp_path.iterdir())
        demo.process.send_signal(number)
        assert demo.process.wait(END_SECONDS) == 0, demo.text
        assert [identity for identity in started if is_running(identity)] == []
    assert list(tmp_path.iterdir()) == []


def test_killed_demo_leaves_no_process_and_the_next_removes_its_folder(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        started = demo.descendants()
        demo.process.kill()
        eventually(
            lambda: not any(map(is_running, started)),
            END_SECONDS,
            lambda: [Path(f"/proc/{pid}/cmdline").read_text() for pid, _ in filter(is_running, started)],
        )
    (left,) = tmp_path.iterdir()
    with running_demo(tmp_path) as demo:
        assert f"Removed {left}, the folder of a demo that was killed." in demo.text
        assert not left.exists()
        demo.process.terminate()
        assert demo.process.wait(END_SECONDS) == 0
    assert list(tmp_path.iterdir()) == []


def test_ended_program_is_reported_and_the_demo_goes_on(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        (victim,) = [
            pid for pid, _ in demo.descendants() if "receiver\0run" in _arguments(pid) and "halyard" in _arguments(pid)
        ]
        os.kill(victim, signal.SIGKILL)
        demo.wait_for_line("receiver halyard has ended by itself (SIGKILL)")
        assert httpx.get(f"{demo.url}/console/sign-in").status_code == 200


def test_ended_server_ends_the_demo_with_an_error(tmp_path: Path) -> None:
    with running_demo(tmp_path) as demo:
        started = demo.descendants()
        (server,) = [pid for pid, _ in started if "\0serve\0" in _arguments(pid)]
        os.kill(server, signal.SIGKILL)
        assert demo.process.wait(END_SECONDS) == 1
        assert "server has ended by itself" in demo.text
        eventually(lambda: not any(map(is_running, started)), END_SECONDS)
    assert list(tmp_path.iterdir()) == []


def _arguments(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


def test_given_folder_is_kept_and_must_be_empty(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with running_demo(tmp_path, "--data", str(kept)) as demo:
        demo.process.terminate()
        assert demo.process.wait(END_SECONDS) == 0
    assert (kept / "server").is_dir()
    again = DemoProcess(tmp_path, "--data", str(kept))
    try:
        assert again.process.wait(END_SECONDS) == 1
        again.wait_for_line("is not empty")
    finally:
        again.end()


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "nonsense", "127.0.0.1"])
def test_address_that_others_can_reach_is_refused(tmp_path: Path, listen: str) -> None:
    demo = DemoProcess(tmp_path, "--listen", listen)
    try:
        assert demo.process.wait(END_SECONDS) == 1
        demo.wait_for_line("listen: expected an address of the loopback interface")
    finally:
        demo.end()
