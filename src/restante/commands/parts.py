"""Everything of edge commands, put together: what the server serves, runs beside it, and passes commits' news to.

The server constructs it once and knows no more of this protocol: routes for the application, handlers for the fast
lane, background services by name, and `hear` for what commits announce.
"""

import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from restante.commands import collectors, fast_ack, fast_poll, telemetry
from restante.commands.ack_desk import AckDesk
from restante.commands.acks import AckOptions
from restante.commands.approval import ApprovalRules
from restante.commands.audit import KEY_PURPOSE, AuditTrail
from restante.commands.claims import ClaimOptions
from restante.commands.collectors import SecretBox
from restante.commands.creation import CreationOptions
from restante.commands.fast_ack import FastAck
from restante.commands.fast_poll import FastPoll
from restante.commands.ingest import Ingest
from restante.commands.leases import CommandFailed
from restante.commands.poll import CommandPoll
from restante.commands.queue import CommandsChanged
from restante.commands.rate_windows import RateRules
from restante.commands.recovery import LeaseRecovery
from restante.commands.routes import admin_routes
from restante.commands.routes_collector import CollectorRoutes
from restante.commands.routes_rules import RuleRoutes
from restante.commands.routes_safety import SafetyRoutes
from restante.commands.routes_telemetry import TelemetryRoutes
from restante.commands.rule_evaluation import RuleEvaluation
from restante.commands.rule_firing import Firing
from restante.commands.rule_hearing import OthersHeard
from restante.commands.rule_timer import RuleTimer
from restante.commands.site_changes import SiteChanges
from restante.commands.site_neighbours import SiteMessage, SiteNeighbours
from restante.commands.totals import CommandTotals
from restante.commands.window_gate import WindowGate
from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.delivery.presence import Presence
from restante.delivery.retention import Sweep
from restante.delivery.window_copies import WindowCopies
from restante.identity.callers import CollectorRevoked
from restante.identity.collector_tokens import CollectorTokens
from restante.identity.master_key import MasterKey
from restante.web import idempotency
from restante.web.ask import BODY_BYTES_MAX
from restante.web.hot import HotHandler, HotPost
from restante.web.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsOptions:
    """This protocol's settings."""

    is_signed: bool = False
    is_ack_nonce_required: bool = False
    lease_seconds: int = 60
    max_retries: int = 3
    retry_backoff_seconds: int = 30
    rates: RateRules = field(default_factory=RateRules)
    priority_ageing_seconds: int = 300
    approval: ApprovalRules = field(default_factory=ApprovalRules)
    secret_overlap_seconds: int = 86_400
    telemetry_history_records: int = 100
    telemetry_gap_seconds: int = 300
    # Whether other nodes take in telemetry of the same sites.
    is_shared: bool = False
    body_bytes_max: int = BODY_BYTES_MAX

    def for_creation(self) -> CreationOptions:
        return CreationOptions(
            rate_rules=self.rates,
            approval=self.approval,
            max_retries=self.max_retries,
            retry_backoff_sec=self.retry_backoff_seconds,
            priority_ageing_seconds=self.priority_ageing_seconds,
        )


class CommandsParts:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        tokens: CollectorTokens,
        options: CommandsOptions,
        copies: WindowCopies | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._tokens = tokens
        self._options = options
        self.trail = AuditTrail(master_key.derived(KEY_PURPOSE))
        self.box = SecretBox(master_key)
        self.totals = CommandTotals()
        self.presence = Presence(database, collectors.write_last_seen)
        claims = ClaimOptions(options.lease_seconds, options.rates, options.is_signed)
        self.changes = SiteChanges()
        gate = None if copies is None else WindowGate(copies, self.changes, options.rates, clock)
        self.poll = CommandPoll(database, self.trail, self.box, claims, self.presence, self.totals, gate)
        acks = AckOptions(self.box, options.is_signed and options.is_ack_nonce_required)
        self.desk = AckDesk(database, self.trail, acks, self.totals)
        self.recovery = LeaseRecovery(database, self.trail)
        others = OthersHeard(options.telemetry_history_records) if options.is_shared else None
        self.rules = RuleEvaluation(Firing(self.trail, options.for_creation()), options.telemetry_gap_seconds, others)
        self.rule_timer = RuleTimer(database, self.rules, self.totals)
        self.join("", lambda _message: None)

    def join(self, node: str, send: Callable[[SiteMessage], None]) -> None:
        """Be one of several nodes, of this name; `send` tells the others."""
        self.neighbours = SiteNeighbours(self.poll.bell, node, send, time.monotonic)
        self.neighbours.on_change = self.changes.changed
        self.poll.on_served = self.neighbours.served
        self.poll.on_left_behind = self.neighbours.left_behind

    def routes(self) -> list[Route]:
        database, options = self._database, self._options
        ingest = Ingest(database, self.rules, self.totals, options.telemetry_history_records)
        return [
            *CollectorRoutes(self.poll, self.desk).routes(),
            *TelemetryRoutes(database, ingest, options.body_bytes_max).routes(),
            *SafetyRoutes(database, options.body_bytes_max).routes(),
            *RuleRoutes(database, self.trail).routes(),
            *admin_routes(
                database,
                self.trail,
                self.box,
                options.for_creation(),
                secret_overlap_seconds=options.secret_overlap_seconds,
            ),
        ]

    def hot(self) -> dict[bytes, HotHandler]:
        return {fast_poll.TARGET: FastPoll(self.poll, self._tokens)}

    def hot_posts(self) -> list[HotPost]:
        ack = FastAck(self.desk, self.poll, self._tokens)
        return [HotPost(fast_ack.BEFORE_NAME, fast_ack.BEHIND_NAME, ack)]

    def services(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """What runs for as long as the server does; beside these, `tick` wants to be called every second."""
        yield "lease recovery", self.recovery.run
        yield "rule timer", self.rule_timer.run
        yield "collectors' presence", self.presence.run

    def sweeps(self) -> list[Sweep]:
        keep = self._options.telemetry_history_records
        return [idempotency.forget_old, partial(telemetry.forget_beyond, keep=keep)]

    def tick(self, now: float) -> None:
        self.poll.tick(now)
        self.neighbours.tick()

    def hear(self, event: object) -> None:
        """Pass on what a commit announced, if it concerns this protocol. Runs in the event loop."""
        match event:
            case CommandsChanged(site_id=site_id):
                self.neighbours.changed_here(site_id)
            case CommandFailed(code=code):
                self.totals.count_failed(code)
            case CollectorRevoked():
                self._tokens.forget_all()
            case ForeignCommit():
                self.poll.bell.ring_all()

    async def catch_up(self) -> None:
        """Another process changed something: forget whom it may have revoked."""
        await self._tokens.catch_up()

    def close(self) -> None:
        """Answer who waits, and let nobody wait any more."""
        self.poll.close()
        self.neighbours.close()

    async def finish(self) -> None:
        """Write down what was only remembered, when all else has stopped."""
        await self.presence.try_once()
