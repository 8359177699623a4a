"""Everything that a route of edge commands can be about: a site of its own, with a command in each state they need."""

from typing import NamedTuple
from uuid import uuid4

from restante.commands import collectors, creation, miners, rules, safety, sites, telemetry
from restante.commands.claims import Claim, ClaimOptions, claim
from restante.commands.creation import CommandWish
from restante.commands.miners import MinerWish
from restante.commands.rules import RuleWish
from restante.commands.telemetry_records import parse_batch
from restante.commands.wire import SHAPE, iso
from restante.database.connection import Connection
from restante.identity.callers import CollectorCaller
from restante.server.app import Node
from restante.server.options import commands_options
from restante.web.routes import Route

ACTOR = "tests"
# A type that a second person must approve, in the settings of the served node.
APPROVED_TYPE = "DEVICE_REBOOT"


class EdgeThings(NamedTuple):
    """One site's. `command_id` is held by the collector `device_id`, whose token is `token`; `approval_id` waits for
    approval and `pending_id` to be handed out."""

    site_id: int
    zone_id: int
    miner_id: int
    device_id: int
    token: str
    command_id: str
    approval_id: str
    pending_id: str
    rule_id: int

    def for_route(self, route: Route) -> "EdgeThings":
        """With the command that the route can do something about."""
        waits = route.path.endswith(("/approve", "/deny"))
        return self._replace(command_id=self.approval_id) if waits else self


def is_edge(route: Route) -> bool:
    return route.shape is SHAPE


def add_edge_things(conn: Connection, node: Node) -> EdgeThings:
    trail, box = node.commands.trail, node.commands.box
    site = sites.add(conn, trail, str(uuid4()), ACTOR)
    zone_id = site.default_zone_id
    miner_id = miners.add(conn, trail, MinerWish(site.id, "miner"), ACTOR).id
    hired = collectors.create(conn, trail, box, site.id, None, "collector", ACTOR)
    caller = CollectorCaller(hired.id, site.id, None)

    def made(command_type: str) -> str:
        wish = CommandWish(site_id=site.id, miner_id=miner_id, command_type=command_type)
        return creation.create(conn, trail, wish, ACTOR, commands_options(node.settings).for_creation()).command_id

    held = made("MINER_RESTART")
    claim(conn, trail, ClaimOptions(), Claim(caller, None, 1))
    rule = rules.create(conn, trail, _rule(site.id), ACTOR)
    _report(conn, caller, miner_id)
    return EdgeThings(
        site.id, zone_id, miner_id, hired.id, hired.token, held, made(APPROVED_TYPE), made("HASHING_ENABLE"), rule.id
    )


def _rule(site_id: int) -> RuleWish:
    return RuleWish(
        name="too hot",
        site_id=site_id,
        trigger_type="threshold",
        trigger_metric="temp_max",
        trigger_operator=">",
        trigger_value=90.0,
        action_type="MINER_RESTART",
    )


def _report(conn: Connection, caller: CollectorCaller, miner_id: int) -> None:
    ts = iso(conn.now_ms).encode()
    record = b'{"miner_id":%d,"ts":"%b"}' % (miner_id, ts)
    telemetry.store(conn, caller.site_id, parse_batch(b"[%b]" % record, caller.site_id).samples, 10)
    events = b'{"events":[{"miner_id":%d,"ts":"%b","action":"FAN_FAILURE"}]}' % (miner_id, ts)
    safety.keep(conn, caller, safety.parse_batch(events))
