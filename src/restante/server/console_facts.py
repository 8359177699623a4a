"""What the console shows about the server itself: the settings in force, the doctor's checks, metrics, nodes."""

from typing import TYPE_CHECKING

from restante.commands.lifecycle import listing
from restante.commands.lifecycle.listing import CommandFilter
from restante.console.server_facts import CheckResult, NodeRow, ServerFacts, SettingRow
from restante.core.commands.command_states import State
from restante.server.cluster import node_registry
from restante.server.cluster.node_registry import KnownNode, NodeIdentity, NodeLoad
from restante.server.cluster.roles import EVERY_ROLE
from restante.server.config.settings import DECLARATIONS, Settings
from restante.server.monitoring.tls_checks import check_all

if TYPE_CHECKING:
    from restante.server.app import Node


def server_facts(node: "Node") -> ServerFacts:
    """The facts of this node. Nothing is read before a page needs it: the node is still being built."""
    return ServerFacts(
        settings=lambda: setting_rows(node.settings),
        check=lambda: check_results(node.settings),
        samples=lambda: node.metrics.samples(),
        read_backlogs=lambda: _read_backlogs(node),
        away=node.unavailable,
        nodes=lambda: _nodes(node),
    )


def setting_rows(settings: Settings) -> list[SettingRow]:
    return [
        SettingRow(each.name, each.shown(getattr(settings, each.name)), each.shown(each.default), each.meaning)
        for each in DECLARATIONS.values()
    ]


def check_results(settings: Settings) -> list[CheckResult]:
    return [
        CheckResult(finding.subject, finding.state.value, finding.what, finding.remedy)
        for finding in check_all(settings)
    ]


async def _read_backlogs(node: "Node") -> int:
    await node.outbox.read_metrics()
    await node.events.read_metrics()
    every = CommandFilter()
    states = (await node.database.count(("backlog", every), lambda: listing.counting(every))).states
    return sum(states[state].value for state in (State.pending, State.pending_approval))


async def _nodes(node: "Node") -> list[NodeRow]:
    own = KnownNode(node.identity_in_cluster(), int(node.clock() * 1000), node.load())
    others = [] if node.cluster is None else await node.database.read(node_registry.list_nodes)
    rows = [own, *(other for other in others if other.identity.name != own.identity.name)]
    return [_row(known, known.identity, known.load, is_self=known is own) for known in rows]


def _row(known: KnownNode, identity: NodeIdentity, load: NodeLoad, *, is_self: bool) -> NodeRow:
    return NodeRow(
        name=identity.name,
        host=identity.host,
        listen=identity.listen,
        roles="all" if identity.roles == str(EVERY_ROLE) else identity.roles,
        version=identity.version,
        started_at=identity.started_at,
        seen_at=known.seen_at,
        is_self=is_self,
        connections=load.connections,
        parked_polls=load.parked_polls,
        requests_per_second=load.requests_per_second,
        series=load.series,
    )
