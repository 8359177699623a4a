"""Edge commands as one component: routes, the poll, ACKs, the lease sweeper and the automation rules.

Roles of operators: viewer to read; operator to create and cancel commands; approver to approve and deny; admin to
change sites, zones, collectors and miners.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from restante.commands import budget_sharing, metrics
from restante.commands.acks import fast_ack
from restante.commands.acks.ack_service import AckService
from restante.commands.acks.acks import AckOptions
from restante.commands.acks.fast_ack import FastAck
from restante.commands.audit.audit_trail import KEY_PURPOSE, AuditTrail
from restante.commands.audit.heads_recorder import HeadsOptions, HeadsRecorder
from restante.commands.audit.routes import AdminAuditRoutes
from restante.commands.budget_sharing import BudgetSharing
from restante.commands.bulk.routes import CommandBulkRoutes, command_job_actions
from restante.commands.collector_budgets import BudgetOptions, CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.commands.dispatch.claims import ClaimOptions
from restante.commands.dispatch.lease_sweeper import LeaseSweeper
from restante.commands.dispatch.rate_limits import RateRules
from restante.commands.dispatch.settlement import CommandFailed
from restante.commands.legacy_api.routes import LegacyRoutes
from restante.commands.lifecycle import approval_policy, makers
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.lifecycle.creation import CreationOptions
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.commands.lifecycle.routes import AdminCommandRoutes
from restante.commands.polling import fast_poll
from restante.commands.polling.fast_poll import FastPoll
from restante.commands.polling.poll import CommandPoll
from restante.commands.polling.queue_versions import QueueVersions
from restante.commands.polling.rate_limit_cache import RateLimitCache
from restante.commands.polling.routes import CollectorRoutes
from restante.commands.polling.wake_coordinator import SITE_MESSAGES
from restante.commands.rules.routes import RuleRoutes
from restante.commands.rules.rule_actions import RuleActions
from restante.commands.rules.rule_evaluation import RuleEvaluator
from restante.commands.rules.rule_sync import RuleSync
from restante.commands.rules.rule_timer import RuleTimer
from restante.commands.sites import collectors
from restante.commands.sites.collectors import SecretBox
from restante.commands.sites.routes_collectors import AdminCollectorRoutes
from restante.commands.sites.routes_inventory import InventoryRoutes
from restante.commands.sites.routes_sites import AdminSiteRoutes
from restante.commands.sites.routes_tags import AdminTagRoutes
from restante.commands.telemetry import telemetry
from restante.commands.telemetry.ingest import TelemetryIngest
from restante.commands.telemetry.routes_safety import SafetyRoutes
from restante.commands.telemetry.routes_telemetry import TelemetryRoutes
from restante.database.commit_events import ClusterMessage, ForeignCommit
from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.delivery.redis.rate_limit_mirror import RateLimitMirror
from restante.delivery.retention import Sweep
from restante.identity.clients.collector_tokens import CollectorTokens
from restante.identity.master_key import MasterKey
from restante.jobs.actions import JobAction
from restante.web.component import (
    EventHandler,
    MessageCompleter,
    MessageHandler,
    MessageOrigin,
    MetricSample,
    PollComponent,
    Service,
)
from restante.web.fast_lane_api import FastHandler, FastPost
from restante.web.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsOptions:
    """This protocol's settings."""

    is_signed: bool
    is_ack_nonce_required: bool
    is_ack_signature_required: bool
    lease_seconds: int
    is_one_lease_per_miner: bool
    max_retries: int
    retry_backoff_seconds: int
    rates: RateRules
    priority_ageing_seconds: int
    approval: ApprovalRules
    secret_overlap_seconds: int
    telemetry_history_records: int
    telemetry_gap_seconds: int
    unknown_miners_max: int
    budgets: BudgetOptions
    parked_polls_max: int
    is_legacy_api_served: bool
    # Whether other nodes take in telemetry of the same sites.
    is_shared: bool = False
    body_bytes_max: int
    heads: HeadsOptions

    def for_claims(self) -> ClaimOptions:
        return ClaimOptions(self.lease_seconds, self.rates, self.is_signed, self.is_one_lease_per_miner)

    def for_acks(self, box: SecretBox) -> AckOptions:
        return AckOptions(box, self.is_signed and self.is_ack_nonce_required, self.is_ack_signature_required)

    def for_creation(self, box: SecretBox) -> CreationOptions:
        return CreationOptions(
            rate_rules=self.rates,
            approval=self.approval,
            max_retries=self.max_retries,
            retry_backoff_sec=self.retry_backoff_seconds,
            priority_ageing_seconds=self.priority_ageing_seconds,
            box=box,
        )


class CommandsComponent(PollComponent):
    poll: CommandPoll

    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        tokens: CollectorTokens,
        options: CommandsOptions,
        copies: RateLimitMirror | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._tokens = tokens
        self.options = options
        self.trail = AuditTrail(master_key.derive_key(KEY_PURPOSE))
        self.box = SecretBox(master_key)
        self.counters = CommandCounters()
        self.budgets = CollectorBudgets(options.budgets, self.counters)
        self.budget_sharing = BudgetSharing(database, self.budgets)
        self._active_leases: dict[str, int] = {}
        self.presence = Presence(database, collectors.write_last_seen)
        self.queue_versions = QueueVersions()
        rate_limits = None if copies is None else RateLimitCache(copies, self.queue_versions, options.rates, clock)
        self.poll = CommandPoll(
            database,
            self.trail,
            self.box,
            options.for_claims(),
            self.presence,
            self.counters,
            self.queue_versions,
            rate_limits,
            parked_max=options.parked_polls_max,
        )
        self.wake_coordinator = self.poll.waiters
        self.acks = AckService(database, self.trail, options.for_acks(self.box), self.counters, self.budgets)
        self.lease_sweeper = LeaseSweeper(database, self.trail)
        self.heads = HeadsRecorder(database, self.trail, options.heads)
        sync = RuleSync(options.telemetry_history_records) if options.is_shared else None
        self.rules = RuleEvaluator(
            RuleActions(self.trail, options.for_creation(self.box)), options.telemetry_gap_seconds, sync
        )
        self.rule_timer = RuleTimer(database, self.rules, self.counters)

    def join_cluster(self, node_name: str, send: Callable[[ClusterMessage], None]) -> None:
        self.wake_coordinator.join(node_name, send)

    def routes(self) -> list[Route]:
        database, options = self._database, self.options
        ingest = TelemetryIngest(
            database,
            self.rules,
            self.counters,
            options.telemetry_history_records,
            options.unknown_miners_max,
            self.budgets,
        )
        safety = SafetyRoutes(database, self.counters, self.budgets, options.unknown_miners_max, options.body_bytes_max)
        return [
            *CollectorRoutes(self.poll, self.acks).routes(),
            *self._legacy_routes(ingest),
            *TelemetryRoutes(database, ingest, options.body_bytes_max).routes(),
            *safety.routes(),
            *RuleRoutes(database, self.trail, self.box).routes(),
            *AdminSiteRoutes(database, self.trail).routes(),
            *InventoryRoutes(database, self.trail).routes(),
            *AdminCollectorRoutes(
                database, self.trail, self.box, self.presence, secret_overlap_seconds=options.secret_overlap_seconds
            ).routes(),
            *AdminTagRoutes(database, self.trail).routes(),
            *AdminCommandRoutes(database, self.trail, options.for_creation(self.box), options.for_claims()).routes(),
            *AdminAuditRoutes(database, self.trail, self.heads).routes(),
            *CommandBulkRoutes(database, self.job_actions()).routes(),
        ]

    def job_actions(self) -> list[JobAction[Any]]:
        return command_job_actions(self.trail, self.options.for_creation(self.box))

    def _legacy_routes(self, ingest: TelemetryIngest) -> list[Route]:
        if not self.options.is_legacy_api_served:
            return []
        return LegacyRoutes(self.poll, self.acks, ingest, self.options.body_bytes_max).routes()

    def fast_handlers(self) -> Mapping[bytes, FastHandler]:
        return {fast_poll.TARGET: FastPoll(self.poll, self._tokens)}

    def fast_posts(self) -> list[FastPost]:
        ack = FastAck(self.acks, self.poll, self._tokens)
        return [FastPost(fast_ack.BEFORE_NAME, fast_ack.BEHIND_NAME, ack)]

    def services(self) -> list[Service]:
        return [
            Service("lease recovery", self.lease_sweeper.run, role="recovery"),
            Service("audit heads", self.heads.run, role="recovery"),
            Service("rule timer", self.rule_timer.run, role="rules"),
            Service("collectors' presence", self.presence.run, role="api"),
            Service("collectors' budgets", self.budget_sharing.run, role="api"),
        ]

    def sweeps(self) -> list[Sweep]:
        return [
            partial(telemetry.delete_beyond, history_records=self.options.telemetry_history_records),
            makers.delete_old,
            budget_sharing.delete_full,
        ]

    async def start(self) -> None:
        await self._database.write(approval_policy.store_initial, self.trail, self.options.approval)

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {
            CommandsChanged: lambda event: self.wake_coordinator.changed_here(event.site_id),
            CommandFailed: lambda event: self.counters.count_failed(event.code),
            ForeignCommit: lambda _: self.poll.notify_all(),
        }

    def cluster_message_handlers(self) -> Mapping[type[ClusterMessage], MessageHandler]:
        return {
            CommandsChanged: self._changed_elsewhere,
            **dict.fromkeys(
                SITE_MESSAGES, lambda message, origin: self.wake_coordinator.handle_message(message, origin.node)
            ),
        }

    def _changed_elsewhere(self, event: CommandsChanged, origin: MessageOrigin) -> None:
        self.wake_coordinator.changed_elsewhere(event.site_id, origin.commit_id, event.to)

    def message_completers(self) -> Mapping[type[ClusterMessage], MessageCompleter]:
        return {CommandsChanged: self._with_server}

    def _with_server(self, event: CommandsChanged, commit_id: int) -> CommandsChanged:
        return CommandsChanged(event.site_id, self.wake_coordinator.serving_node(event.site_id, commit_id))

    def handle_bus_scan(self, next_commit_id: int) -> None:
        self.queue_versions.set_floor(next_commit_id)

    def recheck(self) -> None:
        self.wake_coordinator.rejoin()
        super().recheck()

    async def read_metrics(self) -> None:
        leases: dict[str, int] = {}
        for site_id, count in await self._database.read(metrics.active_leases):
            site = self.counters.sites.of(str(site_id))
            leases[site] = leases.get(site, 0) + count
        self._active_leases = leases

    def metrics(self) -> Iterable[MetricSample]:
        yield MetricSample("restante_parked_polls", self.parked_count)
        yield MetricSample("restante_waits_ended_early", self.poll.ended_early)
        yield from metrics.samples(self.counters, self._active_leases)
        yield MetricSample("restante_audit_set_back", int(self.heads.is_set_back))
        yield MetricSample("restante_audit_anchors", self.heads.anchored_count, ("written",))
        yield MetricSample("restante_audit_anchors", self.heads.failed_anchors_count, ("failed",))

    async def finish(self) -> None:
        await self.presence.try_once()
        await self.budget_sharing.try_once()
        await self.heads.try_once()
