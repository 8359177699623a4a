"""Rollouts on devices: what counts as success, laggards, the poll boost, and rolling back."""

import asyncio
from typing import Any

import msgspec
import pytest

from restante.core.errors import Conflict
from restante.core.rollout_rules import RolloutRules
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import Page, PageRequest
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.grants import ALL_IDS, Role
from restante.jobs.actions import JobActions, JobCaller, Laggard
from restante.jobs.jobs import JobRequest
from restante.jobs.rollouts import rollout_views, rollouts
from restante.jobs.rollouts.controller import RolloutController
from restante.jobs.rollouts.rollout_views import RolloutView
from restante.jobs.rollouts.rollouts import RolloutRequest
from restante.jobs.rollouts.waves import Wave
from restante.jobs.runner import JobRunner
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.install import install_configs
from restante.updates.pki import assignments
from restante.updates.polling import poll_boost
from tests.conftest import ManualClock
from tests.jobs.job_fixture import run_until_idle
from tests.updates.bulk.test_device_bulk import ITEM, DeviceBulkApi
from tests.updates.updates_fixture import FleetDevice

RECEIVED = Query(
    "received",
    "INSERT INTO device_presence (device_id, received_ms) VALUES (:device_id, :at) "
    "ON CONFLICT (device_id) DO UPDATE SET received_ms = excluded.received_ms",
)


class DeviceRollout:
    """A rollout to the devices with the tag `kiosk`: the first of them, then the other two."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self.api = DeviceBulkApi(database)
        self.database, self.clock = database, clock
        self.actions = JobActions(self.api.actions)
        self.devices = [self.api.devices[number] for number in (0, 1, 3)]
        self.key_id, _ = database.write_now(api_keys.create, "robot", Role.operator)
        self.rollout_id = ""

    def caller(self) -> JobCaller:
        return JobCaller("key:robot", (), ALL_IDS, key_id=self.key_id)

    async def start(self, action_name: str, **params: Any) -> RolloutView:
        action = self.actions.find("devices", action_name)
        assert action is not None
        job = JobRequest(
            action=action,
            filters=DeviceFilter(tag="kiosk"),
            params=msgspec.convert(params, action.params_type),
            caller=self.caller(),
            role=Role.operator,
        )
        rules = RolloutRules(100, 0, 0, 0)
        planned = [Wave(count=1), Wave(percent=100)]
        request = RolloutRequest(job=job, name="", waves=planned, rules=rules, is_boosting=True)
        self.rollout_id = self.database.write_now(rollouts.create, request, 3)["rollout_id"]
        return await self.look()

    async def look(self) -> RolloutView:
        for _ in range(2):
            self.clock.advance(2)
            await RolloutController(self.database, self.actions, part_of_time=0).run_once()
            await run_until_idle(JobRunner(self.database, self.actions))
        return self.database.read_now(
            lambda conn: rollout_views.view(conn, self.actions, rollouts.find(conn, self.rollout_id))
        )

    def laggards(self) -> list[Laggard]:
        return self.database.read_now(self._laggards).items

    def _laggards(self, conn: Connection) -> Page[Laggard]:
        row = rollouts.find(conn, self.rollout_id)
        return rollout_views.laggards(conn, self.actions, row, PageRequest(100, 0))

    def apply(self, device: FleetDevice, version: int, failure: str | None = None) -> None:
        self.database.write_now(install_configs.mark_fetched, device.id, version)
        self.database.write_now(install_configs.mark_outcome, device.id, version, failure)

    async def roll_back(self) -> RolloutView:
        self.database.write_now(rollouts.roll_back, self.actions, self.rollout_id, self.caller(), Role.operator)
        return await self.look()


@pytest.fixture
def rollout(database: Database, clock: ManualClock) -> DeviceRollout:
    return DeviceRollout(database, clock)


async def test_config_goes_on_when_the_first_wave_has_applied_it(rollout: DeviceRollout) -> None:
    shown = await rollout.start("put_config", installs=[ITEM])
    assert [(wave.state, wave.waiting) for wave in shown.waves] == [("running", 1), ("planned", 0)]
    assert [(each.item, each.detail) for each in rollout.laggards()] == [
        (rollout.devices[0].id, "it has not fetched version 1")
    ]
    assert rollout.database.read_now(poll_boost.current) is not None
    rollout.apply(rollout.devices[0], 1)
    shown = await rollout.look()
    assert (shown.wave, shown.succeeded, shown.waiting) == (2, 1, 2)
    rollout.apply(rollout.devices[1], 1, "disk full")
    shown = await rollout.look()
    assert (shown.state, shown.failed) == ("paused", 1)
    assert [(each.item, each.state, each.wave) for each in rollout.laggards()] == [
        (rollout.devices[1].id, "failed", 2),
        (rollout.devices[2].id, "waiting", 2),
    ]
    assert rollout.laggards()[0].detail == "disk full"


async def test_devices_get_the_version_before_back(rollout: DeviceRollout) -> None:
    api = rollout.api
    old = {"id": "old", "type": "exec"}
    api.put(rollout.devices[:2], old)
    await rollout.start("put_config", installs=[ITEM])
    rollout.apply(rollout.devices[0], 2)
    await rollout.look()
    # The config of the second device is changed by somebody else, who must not lose that.
    api.put([rollout.devices[1]], {"id": "newer", "type": "exec"})
    shown = await rollout.roll_back()
    assert shown.state == "rolled_back"
    job = api.job(shown.roll_back_job_id or "")
    assert (job.done, job.failed) == (2, 1)
    assert api.config(rollout.devices[0]) == (3, [{**old, "enabled": True}], "true")
    assert api.config(rollout.devices[1])[1] == [{"id": "newer", "type": "exec", "enabled": True}]
    # A device that had no config gets one without items.
    assert api.config(rollout.devices[2]) == (2, [], None)


async def test_certificate_counts_as_received_by_the_cursor_and_is_unassigned_again(rollout: DeviceRollout) -> None:
    fleet = rollout.api.fleet
    certificate = fleet.add_certificate()
    rollout.database.write_now(assignments.assign, fleet.user_id, rollout.devices[1].id, certificate.id)
    shown = await rollout.start("assign_certificate", cert_id=certificate.id)
    assert shown.waves[0].waiting == 1
    first = rollout.devices[0]
    rollout.database.write_now(lambda conn: conn.run(RECEIVED, device_id=first.id, at=rollout.clock.now_ms))
    shown = await rollout.look()
    # The second device had the certificate before, and the third belongs to another user.
    assert (shown.state, shown.succeeded, shown.failed) == ("paused", 1, 1)
    await rollout.roll_back()
    assert rollout.database.read_now(assignments.active_holders, certificate.id) == [rollout.devices[1].id]


def handed_out(shown: RolloutView) -> int:
    return sum(wave.handed_out for wave in shown.waves)


async def test_operators_at_once_leave_the_rollout_in_one_state(rollout: DeviceRollout) -> None:
    await rollout.start("put_config", installs=[ITEM])
    database, actions, rollout_id = rollout.database, rollout.actions, rollout.rollout_id
    outcomes = await asyncio.gather(
        *(database.write(rollouts.pause, actions, rollout_id, "ada") for _ in range(2)),
        *(database.write(rollouts.resume, actions, rollout_id, "ben") for _ in range(2)),
        *(database.write(rollouts.abort, actions, rollout_id, "eve") for _ in range(2)),
        return_exceptions=True,
    )
    # Who comes after the abort is refused.
    assert {type(each) for each in outcomes} <= {type(None), Conflict}
    assert outcomes[4:] == [None, None]
    shown = await rollout.look()
    assert (shown.state, shown.reason, handed_out(shown)) == ("aborted", "aborted by eve", 1)


async def test_operators_at_once_begin_one_wave_and_roll_back_once(rollout: DeviceRollout) -> None:
    await rollout.start("put_config", installs=[ITEM])
    database, actions, rollout_id = rollout.database, rollout.actions, rollout.rollout_id
    advanced = await asyncio.gather(
        *(database.write(rollouts.advance, actions, rollout_id, name) for name in ("ada", "ben")),
        return_exceptions=True,
    )
    # The second one finds the wave that the first one has begun.
    assert sorted(str(each) for each in advanced) == ["None", "the current wave has not reached all its items yet"]
    shown = await rollout.look()
    assert (shown.wave, handed_out(shown)) == (2, 3)
    rolled_back = await asyncio.gather(
        *(database.write(rollouts.roll_back, actions, rollout_id, rollout.caller(), Role.operator) for _ in range(2)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in rolled_back) == ["Conflict", "NoneType"]
    shown = await rollout.look()
    assert shown.state == "rolled_back"
    versions = [database.read_now(install_configs.current, device.id).version for device in rollout.devices]
    assert versions == [2, 2, 2]
