"""Bulk actions on miners and commands, through the routes and the job engine."""

from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from restante.commands.bulk.routes import CommandBulkRoutes, command_job_actions
from restante.commands.lifecycle import cancellation
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import inventory
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.identity import api_keys, tags
from restante.identity.callers import Role
from restante.identity.grants import checked_grants
from restante.identity.signing_keys import SigningKeys
from restante.jobs import jobs
from restante.jobs.actions import JobActions
from restante.jobs.jobs import JobItemView, JobView
from restante.jobs.runner import JobRunner
from restante.web.access import AccessControl
from tests.commands.operator_fixture import MASTER_KEY, MinerFleet, OperatorApi, creation_options, error_of
from tests.conftest import ManualClock
from tests.defaults import new_application, new_device_tokens
from tests.jobs.job_fixture import run_until_idle


class BulkApi(OperatorApi):
    def __init__(self, fleet: MinerFleet) -> None:
        database = fleet.database
        self.actions = command_job_actions(fleet.trail, fleet.options)
        tokens = new_device_tokens(database, SigningKeys(database, MASTER_KEY))
        routes = CommandBulkRoutes(database, self.actions).routes()
        application = new_application(routes, AccessControl(database, tokens), RESPONSE_FORMAT)
        super().__init__(fleet, httpx.ASGITransport(application))

    async def run(self) -> None:
        await run_until_idle(JobRunner(self.fleet.database, JobActions(self.actions)))

    async def bulk(self, what: str, **body: Any) -> JobView:
        """Create a job and run it."""
        response = await self.call("POST", f"/{what}/bulk", body, role=Role.operator)
        assert response.status_code == 202, response.text
        await self.run()
        return self.job(response.json()["job_id"])

    def job(self, job_id: str) -> JobView:
        actions = JobActions(self.actions)
        return self.fleet.database.read_now(lambda conn: jobs.show(conn, actions, jobs.find(conn, job_id)))

    def items(self, job_id: str) -> list[JobItemView]:
        actions, page = JobActions(self.actions), PageRequest(500, 0)
        return self.fleet.database.read_now(
            lambda conn: jobs.items_page(conn, actions, jobs.find(conn, job_id), None, page)
        ).items


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    return MinerFleet(database, clock)


@pytest.fixture
def api(fleet: MinerFleet) -> BulkApi:
    return BulkApi(fleet)


def send(site_id: int, **params: Any) -> dict[str, Any]:
    return {
        "action": "send",
        "filter": {"site_id": site_id},
        "params": {"command_type": "HASHING_ENABLE", **params},
    }


def statuses(fleet: MinerFleet, command_ids: Iterable[str | None]) -> list[str]:
    return [fleet.show(command_id or "").status for command_id in command_ids]


async def test_dry_run_counts_the_miners_and_changes_nothing(api: BulkApi, fleet: MinerFleet) -> None:
    response = await api.call("POST", "/miners/bulk", {**send(fleet.site_id), "dry_run": True}, role=Role.operator)
    assert response.status_code == 200
    body = response.json()
    assert (body["total"], [miner["id"] for miner in body["sample"]]) == (
        3,
        [fleet.miner, fleet.second_miner, fleet.east_miner],
    )
    assert (fleet.count(), fleet.count("jobs")) == (0, 0)


async def test_each_miner_of_a_site_gets_a_command_whose_state_is_visible(api: BulkApi, fleet: MinerFleet) -> None:
    job = await api.bulk("miners", **send(fleet.site_id))
    assert (job.state, job.total, job.done, job.outcomes) == ("done", 3, 3, {"pending": 3})
    items = api.items(job.job_id)
    assert [item.item for item in items] == [fleet.miner, fleet.second_miner, fleet.east_miner]
    fleet.write(cancellation.cancel, items[1].result, "ada")
    assert api.job(job.job_id).outcomes == {"pending": 2, "cancelled": 1}
    assert [item.outcome for item in api.items(job.job_id)] == ["pending", "cancelled", "pending"]
    assert fleet.events(items[0].result or "") == [("key:operator", "command.created", None, "pending")]
    assert fleet.verdict().intact


async def test_secret_parameters_of_a_job_are_sealed(api: BulkApi, fleet: MinerFleet) -> None:
    pools = {"pool_url": "stratum+tcp://pool.example:3333", "pool_user": "u", "pool_password": "hunter2"}
    body = {**send(fleet.site_id), "params": {"command_type": "POOL_SET", "params": pools}}
    job = await api.bulk("miners", **body)
    assert (job.state, job.failed) == ("done", 0)
    assert b"hunter2" not in bytes(job.params)
    stored = fleet.query("SELECT params, sealed_params FROM jobs")[0]
    assert "hunter2" not in stored["params"]
    assert stored["sealed_params"] is not None
    command = fleet.query("SELECT sealed_params FROM miner_commands LIMIT 1")[0]
    assert fleet.box.open_params(command["sealed_params"])["pool_password"] == "hunter2"


async def test_caller_reaches_only_miners_of_their_sites(api: BulkApi, fleet: MinerFleet) -> None:
    grants = checked_grants([(Role.operator, f"commands:{fleet.other_site}")])
    key_id, key = fleet.database.write_now(api_keys.create, "south", grants)
    refused = await api.call("POST", "/miners/bulk", send(fleet.site_id), key=key)
    assert (error_of(refused), refused.json()["field"]) == ((400, "INVALID_REQUEST"), "filter.site_id")
    everything = {"action": "send", "all": True, "params": {"command_type": "HASHING_ENABLE"}}
    response = await api.call("POST", "/miners/bulk", everything, key=key)
    assert (response.status_code, response.json()["total"]) == (202, 1)
    # Grants that were narrowed after the job was created count, too.
    narrowed = checked_grants([(Role.operator, f"commands:{fleet.site_id}")])
    second = await api.call("POST", "/miners/bulk", {**everything, "dry_run": True}, key=key)
    assert second.json()["total"] == 1
    fleet.database.write_now(api_keys.set_grants, key_id, narrowed, "ada")
    await api.run()
    made = fleet.query("SELECT site_id FROM miner_commands")
    assert {row["site_id"] for row in made} <= {fleet.site_id}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "send", "params": {"command_type": "HASHING_ENABLE"}}, "filter"),
        ({"action": "send", "filter": {}, "params": {"command_type": "HASHING_ENABLE"}}, "filter"),
        (
            {"action": "send", "filter": {"site_id": 1}, "all": True, "params": {"command_type": "HASHING_ENABLE"}},
            "all",
        ),
        ({"action": "explode", "all": True}, "action"),
        ({"action": "send", "filter": {"colour": "red"}}, "filter.colour"),
        ({"action": "send", "filter": {"site_id": "x"}}, "filter.site_id"),
        ({"action": "send", "filter": {"tag": "A"}, "params": {"command_type": "HASHING_ENABLE"}}, "filter.tag"),
        ({"action": "send", "all": True}, "params.command_type"),
        ({"action": "send", "all": True, "params": {"command_type": "NONE"}}, "params.command_type"),
        ({"action": "send", "all": True, "params": {"command_type": "HASHING_ENABLE", "ttl_sec": 0}}, "params.ttl_sec"),
        ({"action": "send", "all": True, "params": []}, "params"),
        ({"action": "send", "all": True, "rate_per_second": 0}, "rate_per_second"),
    ],
)
async def test_malformed_request_names_its_field_and_changes_nothing(
    api: BulkApi, fleet: MinerFleet, body: dict[str, Any], field: str
) -> None:
    response = await api.call("POST", "/miners/bulk", body, role=Role.operator)
    assert (response.status_code, response.json().get("field")) == (400, field), response.text
    assert fleet.count("jobs") == 0


async def test_miners_are_found_by_their_tags(api: BulkApi, fleet: MinerFleet) -> None:
    for miner, tag in ((fleet.miner, "pilot"), (fleet.miner, "hot"), (fleet.east_miner, "pilot")):
        fleet.database.write_now(tags.add, "miner", miner, tag)
    for wanted, found in (("pilot", [fleet.miner, fleet.east_miner]), ("hot,pilot", [fleet.miner]), ("cold", [])):
        body = {**send(fleet.site_id), "filter": {"tag": wanted}, "dry_run": True}
        sample = (await api.call("POST", "/miners/bulk", body, role=Role.operator)).json()
        assert (sample["total"], [miner["id"] for miner in sample["sample"]]) == (len(found), found)


async def test_repeated_request_under_its_key_creates_one_job(api: BulkApi, fleet: MinerFleet) -> None:
    headers = {"idempotency-key": "k1"}
    first = await api.call("POST", "/miners/bulk", send(fleet.site_id), role=Role.operator, headers=headers)
    again = await api.call("POST", "/miners/bulk", send(fleet.site_id), role=Role.operator, headers=headers)
    other = await api.call("POST", "/miners/bulk", send(fleet.other_site), role=Role.operator, headers=headers)
    assert (first.status_code, again.status_code, other.status_code) == (202, 202, 422)
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert fleet.count("jobs") == 1


async def test_approval_policy_counts_the_miners_of_the_whole_job(database: Database, clock: ManualClock) -> None:
    fleet = MinerFleet(database, clock, creation_options(approval=ApprovalRules(miners_from=3)))
    api = BulkApi(fleet)
    held = await api.bulk("miners", **send(fleet.site_id))
    assert (held.state, fleet.count()) == ("pending_approval", 0)
    database.write_now(jobs.approve, JobActions(api.actions), held.job_id, "ada@example.com", ["person:1"])
    await api.run()
    approved = api.job(held.job_id)
    assert (approved.state, approved.outcomes) == ("done", {"pending": 3})
    [command] = fleet.query("SELECT approved_by FROM miner_commands GROUP BY approved_by")
    assert command["approved_by"] == "ada@example.com"


async def test_miners_of_several_small_jobs_count_together(database: Database, clock: ManualClock) -> None:
    fleet = MinerFleet(database, clock, creation_options(approval=ApprovalRules(miners_from=3)))
    api = BulkApi(fleet)
    for miner in (fleet.miner, fleet.second_miner, fleet.east_miner):
        body = {**send(fleet.site_id), "filter": {"miner_ids": [miner]}}
        # All three jobs are created before any of them runs.
        response = await api.call("POST", "/miners/bulk", body, role=Role.operator)
        assert response.json()["state"] == "queued"
    await api.run()
    states = sorted(row["status"] for row in fleet.query("SELECT status FROM miner_commands"))
    assert states == ["pending", "pending", "pending_approval"]


async def test_active_commands_are_cancelled_and_ended_ones_are_left(api: BulkApi, fleet: MinerFleet) -> None:
    first, second = fleet.create(), fleet.create(miner_id=fleet.second_miner)
    other = fleet.create(site_id=fleet.other_site, miner_id=fleet.other_site_miner)
    fleet.write(cancellation.cancel, second.command_id, "ada")
    job = await api.bulk("commands", action="cancel", filter={"site_id": fleet.site_id}, params={"reason": "stop"})
    assert (job.state, job.total, job.done, job.skipped) == ("done", 1, 1, 0)
    assert statuses(fleet, [first.command_id, other.command_id]) == ["cancelled", "pending"]
    assert fleet.events(first.command_id)[-1] == ("key:operator", "command.cancelled", "pending", "cancelled")


async def test_commands_that_ended_without_success_are_created_anew(api: BulkApi, fleet: MinerFleet) -> None:
    sent = await api.bulk("miners", **send(fleet.site_id, ttl_sec=600, dedupe_key="enable"))
    await api.bulk("commands", action="cancel", filter={"job_id": sent.job_id})
    assert api.job(sent.job_id).outcomes == {"cancelled": 3}
    job = await api.bulk("commands", action="retry", filter={"job_id": sent.job_id})
    assert (job.state, job.done, job.failed) == ("done", 3, 0)
    made = [fleet.show(item.result or "") for item in api.items(job.job_id)]
    assert [(each.status, each.command_type) for each in made] == [("pending", "HASHING_ENABLE")] * 3
    # A second retry finds that each key has an active command again.
    again = await api.bulk("commands", action="retry", filter={"job_id": sent.job_id})
    assert (again.state, again.done, again.failed) == ("done", 0, 3)


async def test_retired_miner_gets_no_command(fleet: MinerFleet, api: BulkApi) -> None:
    fleet.write(inventory.retire_miner, fleet.second_miner, "tests")
    job = await api.bulk("miners", **send(fleet.site_id))
    assert (job.total, job.done, job.failed) == (2, 2, 0)
    assert {item.item for item in api.items(job.job_id)} == {fleet.miner, fleet.east_miner}


async def test_miner_that_is_retired_before_its_turn_fails_alone(fleet: MinerFleet, api: BulkApi) -> None:
    response = await api.call("POST", "/miners/bulk", send(fleet.site_id), role=Role.operator)
    fleet.write(inventory.retire_miner, fleet.second_miner, "tests")
    await api.run()
    job = api.job(response.json()["job_id"])
    assert job.done == 2
    assert fleet.second_miner not in {item.item for item in api.items(job.job_id) if item.state == "done"}
