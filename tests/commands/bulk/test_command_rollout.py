"""Rollouts of commands: success by the state of each miner's command, and cancelling on a roll-back."""

from restante.commands.bulk.miner_target import MinerBulkFilter
from restante.commands.bulk.routes import command_job_actions
from restante.commands.bulk.send import SendParams
from restante.core.rollout_rules import RolloutRules
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.grants import ALL_IDS, Role
from restante.jobs.actions import JobActions, JobCaller
from restante.jobs.jobs import JobRequest
from restante.jobs.rollouts import rollout_views, rollouts
from restante.jobs.rollouts.controller import RolloutController
from restante.jobs.rollouts.rollouts import RolloutRequest
from restante.jobs.rollouts.waves import Wave
from restante.jobs.runner import JobRunner
from tests.commands.operator_fixture import MinerFleet
from tests.conftest import ManualClock
from tests.jobs.job_fixture import run_until_idle

SUCCEED = Query("succeed", "UPDATE miner_commands SET status = 'succeeded' WHERE miner_id = :miner_id")


async def test_command_goes_to_the_next_miners_when_the_first_succeeded(database: Database, clock: ManualClock) -> None:
    fleet = MinerFleet(database, clock)
    actions = JobActions(command_job_actions(fleet.trail, fleet.options))
    key_id, _ = database.write_now(api_keys.create, "robot", Role.operator)
    caller = JobCaller("key:robot", (), ALL_IDS, key_id=key_id)
    send = actions.find("miners", "send")
    assert send is not None
    job = JobRequest(
        action=send,
        filters=MinerBulkFilter(site_id=fleet.site_id),
        params=SendParams(command_type="HASHING_ENABLE"),
        caller=caller,
        role=Role.operator,
    )
    planned = [Wave(filter={"zone_id": fleet.east}), Wave(percent=100)]
    request = RolloutRequest(job=job, name="", waves=planned, rules=RolloutRules(100, 0, 0, 0), is_boosting=False)
    rollout_id = database.write_now(rollouts.create, request, 3)["rollout_id"]

    async def look() -> rollout_views.RolloutView:
        for _ in range(2):
            clock.advance(2)
            await RolloutController(database, actions, part_of_time=0).run_once()
            await run_until_idle(JobRunner(database, actions))
        return database.read_now(lambda conn: rollout_views.view(conn, actions, rollouts.find(conn, rollout_id)))

    shown = await look()
    assert [(wave.total, wave.waiting) for wave in shown.waves] == [(1, 1), (None, 0)]
    [row] = fleet.query("SELECT miner_id, command_id FROM miner_commands")
    assert row["miner_id"] == fleet.east_miner
    database.write_now(lambda conn: conn.run(SUCCEED, miner_id=fleet.east_miner))
    shown = await look()
    assert (shown.wave, shown.succeeded, shown.waiting) == (2, 1, 2)
    page = database.read_now(
        lambda conn: rollout_views.laggards(conn, actions, rollouts.find(conn, rollout_id), PageRequest(10, 0))
    )
    assert [laggard.item for laggard in page.items] == [fleet.miner, fleet.second_miner]
    database.write_now(rollouts.roll_back, actions, rollout_id, caller, Role.operator)
    assert (await look()).state == "rolled_back"
    states = {row["miner_id"]: row["status"] for row in fleet.query("SELECT miner_id, status FROM miner_commands")}
    assert states == {fleet.east_miner: "succeeded", fleet.miner: "cancelled", fleet.second_miner: "cancelled"}
