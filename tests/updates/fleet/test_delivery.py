"""What operators see of a delivery: queued, published, received, applied or failed, and why something is missing."""

from typing import Any

import pytest

from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.updates.devices import devices
from tests.conftest import START_MS, ManualClock
from tests.updates.fleet.fleet_api import FleetApi, deliver_outbox

ITEM = {"id": "site", "type": "copy", "from": ["a"], "to": ["/b"]}


def report(*events: Any) -> dict[str, Any]:
    return {"schema": "certctrl.device.notify.v1", "events": list(events)}


async def states(api: FleetApi, device_id: int) -> list[str]:
    """The states of the device's signals, oldest first."""
    page = await api.get(f"{api.device_path(device_id)}/signals")
    return [line["state"] for line in reversed(page["items"])]


async def test_signal_is_queued_published_received_and_applied(fleet_api: FleetApi, clock: ManualClock) -> None:
    device = fleet_api.fleet.add("kiosk")
    path = fleet_api.device_path(device)
    put = await fleet_api.call("PUT", path + "/install-config", {"installs": [ITEM]})
    assert put.status_code == 200
    assert await states(fleet_api, device) == ["queued"]
    clock.advance(1)
    deliver_outbox(fleet_api.database)
    assert await states(fleet_api, device) == ["published"]
    clock.advance(1)
    cursor = await fleet_api.poll_as(device)
    # The device has been sent the signal; only its next poll proves that it has it.
    assert await states(fleet_api, device) == ["published"]
    clock.advance(1)
    await fleet_api.poll_as(device, cursor)
    assert await states(fleet_api, device) == ["received"]
    await fleet_api.presence.run_once()
    clock.advance(1)
    assert (
        await fleet_api.as_device(device, "POST", "/notify", report({"type": "install.applied", "version": 1}))
    ).is_success
    (line,) = (await fleet_api.get(path + "/signals"))["items"]
    assert (line["type"], line["n"], line["cursor"], line["ref"]["version"]) == ("install.updated", 1, cursor, 1)
    assert [line[f"{state}_at"] for state in ("queued", "published", "received", "applied", "failed")] == [
        *(iso_precise(START_MS + seconds * 1000) for seconds in (0, 1, 3, 4)),
        None,
    ]


async def test_failure_is_shown_as_the_device_reported_it(fleet_api: FleetApi) -> None:
    device = fleet_api.fleet.add("kiosk")
    path = fleet_api.device_path(device)
    cursor = fleet_api.publish(device, "app.note", "app.other")
    await fleet_api.as_device(
        device, "POST", "/notify", report({"type": "signal.failed", "cursor": cursor, "error": "no\x00 space"})
    )
    assert await states(fleet_api, device) == ["published", "failed"]
    newest = (await fleet_api.get(path + "/signals?limit=1"))["items"][0]
    assert (newest["failure"], newest["failed_at"]) == ("no  space", iso_precise(START_MS))
    await fleet_api.as_device(device, "POST", "/notify", report({"status": "ok", "cursor": cursor}))
    assert await states(fleet_api, device) == ["published", "applied"]


async def test_signals_are_listed_in_pages(fleet_api: FleetApi) -> None:
    device = fleet_api.fleet.add("kiosk")
    fleet_api.publish(device, *(f"t{number}" for number in range(5)))
    fleet_api.database.write_now(outbox.enqueue, device, Signal("waiting", 1, {}))
    path = fleet_api.device_path(device) + "/signals"
    first = await fleet_api.get(path + "?limit=2")
    assert [line["type"] for line in first["items"]] == ["waiting", "t4", "t3"]
    second = await fleet_api.get(f"{path}?limit=3&after={first['next']}")
    assert ([line["type"] for line in second["items"]], second["next"]) == (["t2", "t1", "t0"], None)


async def test_config_versions_follow_the_device(fleet_api: FleetApi, clock: ManualClock) -> None:
    fleet = fleet_api.fleet
    device = fleet.add("kiosk")
    path = fleet_api.device_path(device)

    async def config() -> dict[str, Any]:
        found: dict[str, Any] = (await fleet_api.get(path))["delivery"]["config"]
        return found

    assert (await config())["state"] == "none"
    for _ in range(2):
        await fleet_api.call("PUT", path + "/install-config", {"installs": [ITEM]})
    assert fleet.ids(config_version="behind") == [device]
    clock.advance(1)
    assert (await fleet_api.as_device(device, "GET", "/install-config")).status_code == 200
    assert fleet.ids(config_version="current") == fleet.ids(config_version=2) == [device]
    found = await config()
    assert (found["state"], found["wanted"], found["fetched"]) == ("fetched", 2, 2)
    assert found["fetched_at"] == iso_precise(START_MS + 1000)
    await fleet_api.as_device(
        device, "POST", "/notify", report({"type": "install", "status": "failed", "version": 2, "reason": "disk full"})
    )
    found = await config()
    assert (found["state"], found["failed"], found["failure"]) == ("failed", 2, "disk full")
    assert fleet.ids(config_version="behind") == fleet.ids(config_version="failed") == [device]
    await fleet_api.as_device(
        device, "POST", "/notify", report({"type": "install.applied", "data": {"config_version": 2}})
    )
    assert ((await config())["state"], (await config())["applied"]) == ("applied", 2)
    assert fleet.ids(config_version="applied") == [device]
    await fleet_api.call("PUT", path + "/install-config", {"installs": []})
    assert ((await config())["state"], (await config())["applied"]) == ("behind", 2)
    # A version that the server does not have changes nothing.
    await fleet_api.as_device(device, "POST", "/notify", report({"type": "install.applied", "version": 9}))
    assert (await config())["applied"] == 2


async def test_fetching_the_same_version_again_writes_nothing(fleet_api: FleetApi) -> None:
    device = fleet_api.fleet.add("kiosk")
    await fleet_api.call("PUT", fleet_api.device_path(device) + "/install-config", {"installs": []})
    await fleet_api.as_device(device, "GET", "/install-config")
    before = fleet_api.database.writes
    for headers in ({}, {"if-none-match": '"1"'}):
        assert (await fleet_api.as_device(device, "GET", "/install-config", **headers)).status_code in (200, 304)
    assert fleet_api.database.writes == before


async def test_last_poll_and_lag_are_shown_before_they_are_written(fleet_api: FleetApi, clock: ManualClock) -> None:
    device = fleet_api.fleet.add("kiosk")
    path = fleet_api.device_path(device)
    first = fleet_api.publish(device, "one")
    clock.advance(5)
    fleet_api.publish(device, "two", "three")
    clock.advance(10)
    await fleet_api.poll_as(device, first)
    shown = await fleet_api.get(path)
    delivery = shown["delivery"]
    assert shown["last_seen_at"] == iso_precise(START_MS + 15_000)
    assert (delivery["cursor"], delivery["lag_signals"], delivery["lag_seconds"]) == (first, 2, 10.0)
    assert (delivery["last_poll_at"], delivery["is_overdue"]) == (iso_precise(START_MS + 15_000), False)
    (listed,) = (await fleet_api.get("/apiv1/devices"))["items"]
    assert (listed["last_seen_at"], listed["overdue_at"]) == (delivery["last_poll_at"], delivery["overdue_at"])
    (old_list,) = await fleet_api.get(f"/apiv1/users/{fleet_api.fleet.user_id}/devices")
    assert old_list["last_seen_at"] == shown["last_seen_at"]
    await fleet_api.presence.run_once()
    assert (await fleet_api.get(path))["delivery"] == delivery


async def test_position_survives_a_restart_and_never_moves_back(fleet_api: FleetApi, clock: ManualClock) -> None:
    fleet = fleet_api.fleet
    device = fleet.add("kiosk")
    first = fleet_api.publish(device, "one")
    second = fleet_api.publish(device, "two")
    for cursor in (second, first):
        await fleet_api.poll_as(device, cursor)
        await fleet_api.presence.run_once()
    after_restart = FleetApi(fleet, clock)
    await after_restart.tokens.start()
    assert (await after_restart.get(after_restart.device_path(device)))["delivery"]["cursor"] == second
    # Within one batch the greater position counts, too.
    third = fleet_api.publish(device, "three")
    for cursor in (third, first):
        await fleet_api.poll_as(device, cursor)
    await fleet_api.presence.run_once()
    assert (await after_restart.get(after_restart.device_path(device)))["delivery"]["cursor"] == third
    await after_restart.client.aclose()


@pytest.mark.parametrize("cursor", ["9-1", "9999999999999-9", "1-7"])
async def test_cursor_that_is_not_of_the_log_confirms_nothing(fleet_api: FleetApi, cursor: str) -> None:
    device = fleet_api.fleet.add("kiosk")
    fleet_api.publish(device, "one", "two")
    await fleet_api.as_device(device, "GET", f"/updates?cursor={cursor}")
    delivery = (await fleet_api.get(fleet_api.device_path(device)))["delivery"]
    assert delivery["lag_signals"] >= 1
    assert delivery["cursor"] in (None, "9-1")


async def test_reports_are_listed_newest_first_and_bounded(fleet_api: FleetApi) -> None:
    device = fleet_api.fleet.add("kiosk")
    for number in range(22):
        await fleet_api.as_device(device, "POST", "/notify", report({"number": number, "pad": "x" * 1500}, number))
    path = fleet_api.device_path(device) + "/reports"
    page = await fleet_api.get(path + "?limit=15")
    assert [each["events"][-1] for each in page["items"]] == list(range(21, 6, -1))
    rest = await fleet_api.get(f"{path}?after={page['next']}")
    assert ([each["events"][-1] for each in rest["items"]], rest["next"]) == ([6, 5, 4, 3, 2], None)


async def why(api: FleetApi, device_id: int) -> tuple[str, str]:
    explained = await api.get(api.device_path(device_id) + "/why")
    return explained["waiting_for"], explained["sentence"]


async def test_why_names_the_first_reason_that_applies(
    fleet_api: FleetApi, database: Database, clock: ManualClock
) -> None:
    device = fleet_api.fleet.add("kiosk")
    path = fleet_api.device_path(device)
    assert await why(fleet_api, device) == (
        "first_poll",
        f"It was registered at {iso_precise(START_MS)} and has never polled.",
    )
    cursor = await fleet_api.poll_as(device)
    assert (await why(fleet_api, device))[0] == "nothing"
    await fleet_api.call("PUT", path + "/install-config", {"installs": []})
    assert (await why(fleet_api, device))[0] == "dispatcher"
    deliver_outbox(database)
    waiting_for, sentence = await why(fleet_api, device)
    assert (waiting_for, "There is 1 signal that it has not confirmed" in sentence) == ("poll", True)
    fleet_api.poll.forget_all()
    cursor = await fleet_api.poll_as(device, cursor)
    await fleet_api.poll_as(device, cursor)
    assert (await why(fleet_api, device))[0] == "config_fetch"
    await fleet_api.as_device(device, "GET", "/install-config")
    assert (await why(fleet_api, device))[0] == "report"
    await fleet_api.as_device(device, "POST", "/notify", report({"type": "x.failed", "version": 1, "error": "no"}))
    assert await why(fleet_api, device) == (
        "config_failed",
        f"It reported at {iso_precise(START_MS)} that version 1 failed: no.",
    )
    database.write_now(outbox.enqueue, device, Signal("x", 1, {}))
    clock.advance(86_400)
    waiting_for, sentence = await why(fleet_api, device)
    assert (waiting_for, sentence.endswith("; one of its signals waits.")) == ("poll_overdue", True)
    database.write_now(devices.revoke, device)
    assert (await why(fleet_api, device))[0] == "revoked"
