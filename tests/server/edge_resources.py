"""The resources for routes of edge commands: a new site with a command in each state that the routes need."""

from typing import NamedTuple
from uuid import uuid4

from restante.commands.bulk.miner_target import MinerBulkFilter
from restante.commands.bulk.send import SendParams
from restante.commands.dispatch.claims import ClaimRequest, claim
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.rules import rules
from restante.commands.rules.rules import RuleRequest
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.miners import MinerRequest
from restante.commands.telemetry import safety_events, telemetry
from restante.commands.telemetry.telemetry_records import parse_batch
from restante.core.iso_time import iso_precise
from restante.core.rollout_rules import RolloutRules
from restante.database.connection import Connection
from restante.identity.callers import CollectorCaller
from restante.identity.grants import ALL_IDS, Role
from restante.jobs import jobs
from restante.jobs.actions import JobCaller
from restante.jobs.jobs import JobRequest
from restante.jobs.rollouts import rollouts
from restante.jobs.rollouts.rollouts import RolloutRequest
from restante.jobs.rollouts.waves import Wave
from restante.server.app import Node
from restante.server.config.options import commands_options
from restante.web.routes import Route
from tests.defaults import claim_options

ACTOR = "tests"
# A command type that needs approval by the settings of the server.
APPROVED_TYPE = "DEVICE_REBOOT"


class EdgeResources(NamedTuple):
    """The resources of one site. `command_id` is leased by the collector `device_id`, whose token is `token`.

    `approval_id` waits for approval, and `pending_id` for dispatch. Nothing refers to `free_miner_id`, `free_zone_id`
    and `empty_site_id`, so they can be moved and retired.
    """

    site_id: int
    zone_id: int
    miner_id: int
    device_id: int
    token: str
    command_id: str
    approval_id: str
    pending_id: str
    rule_id: int
    job_id: str
    held_job_id: str
    rollout_id: str
    held_rollout_id: str
    free_miner_id: int
    free_zone_id: int
    empty_site_id: int
    tag: str = "pilot"

    def for_route(self, route: Route) -> "EdgeResources":
        """The resources with the command, job, miner, zone or site that the route can act on."""
        if route.path.endswith(("/approve", "/deny")):
            return self._replace(command_id=self.approval_id, job_id=self.held_job_id, rollout_id=self.held_rollout_id)
        if "/miners/{miner_id}" in route.path:
            return self._replace(miner_id=self.free_miner_id)
        if "/zones/{zone_id}" in route.path:
            return self._replace(zone_id=self.free_zone_id)
        return self._replace(site_id=self.empty_site_id) if route.path.endswith("/sites/{site_id}/retire") else self


def is_edge(route: Route) -> bool:
    return route.response_format is RESPONSE_FORMAT


def add_edge_resources(conn: Connection, node: Node) -> EdgeResources:
    trail, box = node.commands.trail, node.commands.box
    site = sites.add(conn, trail, str(uuid4()), ACTOR)
    zone_id = site.default_zone_id
    miner_id = miners.add(conn, trail, MinerRequest(site.id, "miner"), ACTOR).id
    collector = collectors.create(conn, trail, box, site.id, None, "collector", ACTOR)
    caller = CollectorCaller(collector.id, site.id, None)

    def create(command_type: str) -> str:
        request = CommandRequest(site_id=site.id, miner_id=miner_id, command_type=command_type)
        options = commands_options(node.settings).for_creation(box)
        return creation.create(conn, trail, request, ACTOR, options).command_id

    leased_id = create("MINER_RESTART")
    claim(conn, trail, claim_options(), ClaimRequest(caller, None, 1))
    rule = rules.create(conn, trail, box, _rule(site.id), ACTOR)
    _report(conn, caller, miner_id)
    return EdgeResources(
        site.id,
        zone_id,
        miner_id,
        collector.id,
        collector.token,
        leased_id,
        create(APPROVED_TYPE),
        create("HASHING_ENABLE"),
        rule.id,
        jobs.create(conn, _job(node, site.id, "HASHING_ENABLE"), 1).job_id,
        jobs.create(conn, _job(node, site.id, APPROVED_TYPE), 1).job_id,
        _rollout(conn, _job(node, site.id, "HASHING_ENABLE")),
        _rollout(conn, _job(node, site.id, APPROVED_TYPE)),
        miners.add(conn, trail, MinerRequest(site.id, "spare"), ACTOR).id,
        sites.add_zone(conn, trail, site.id, "spare", ACTOR).id,
        sites.add(conn, trail, str(uuid4()), ACTOR).id,
    )


def _job(node: Node, site_id: int, command_type: str) -> JobRequest:
    """A job that sends a command to all miners of the site; one that needs approval waits for it."""
    send = next(action for action in node.commands.job_actions() if action.name == "send")
    return JobRequest(
        action=send,
        filters=MinerBulkFilter(site_id=site_id),
        params=SendParams(command_type=command_type),
        caller=JobCaller(ACTOR, (), ALL_IDS),
        role=Role.operator,
    )


def _rollout(conn: Connection, job: JobRequest) -> str:
    rules = RolloutRules(95, 5, 60, 0)
    request = RolloutRequest(job=job, name="", waves=[Wave(percent=100)], rules=rules, is_boosting=False)
    return str(rollouts.create(conn, request, 1)["rollout_id"])


def _rule(site_id: int) -> RuleRequest:
    return RuleRequest(
        name="too hot",
        site_id=site_id,
        trigger_type="threshold",
        trigger_metric="temp_max",
        trigger_operator=">",
        trigger_value=90.0,
        action_type="MINER_RESTART",
    )


def _report(conn: Connection, caller: CollectorCaller, miner_id: int) -> None:
    ts = iso_precise(conn.now_ms).encode()
    record = b'{"miner_id":%d,"ts":"%b"}' % (miner_id, ts)
    telemetry.store(conn, caller.site_id, parse_batch(b"[%b]" % record, caller.site_id).samples, 10, 0)
    events = b'{"events":[{"miner_id":%d,"ts":"%b","action":"FAN_FAILURE"}]}' % (miner_id, ts)
    safety_events.store(conn, caller, safety_events.parse_batch(events), 0)
