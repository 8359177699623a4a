"""Evaluate rules: on new telemetry, and by a timer for durations that end and for miners that stop reporting.

    fresh samples ─▶ thresholds crossed ─▶ runs begin, continue, end ─▶ rules due at the end of the batch ─▶ fire
    timer ─▶ sites with a due rule ─▶ runs that are long enough, miners silent for long enough ─▶ fire

A run is an unbroken series of samples for which a rule's condition holds (`condition_run`). Evaluation happens only
inside write transactions that lock the site, so a site is evaluated by one transaction at a time. Each change in memory
is written in the same transaction, under a new revision of the site. If the transaction is rolled back, the revision in
the database differs from the one in memory, and the next transaction reads the site again. The end of a batch decides:
a rule does not fire for a miner that was hot and cooled down within the batch.

Invariants: a rule fires for a miner at most once per cooldown, and only if its condition holds by the newest record.
The silence of a miner counts only while this server was running: its own downtime is not silence.

If several nodes share the database, other nodes may have received later samples of a run than this one (`rule_sync`).
Runs are extended from the stored telemetry before they are evaluated, and the timer checks the runs that only samples
received by other nodes could make due.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from restante.commands.lifecycle.ordering import SITE_LOCK
from restante.commands.rules.rule_actions import RuleActions
from restante.commands.rules.rule_state import ActiveRule, MinerRuleState, SiteRules
from restante.commands.rules.rule_sync import RuleSync
from restante.commands.rules.rules import put_revision
from restante.commands.telemetry.telemetry_records import Sample
from restante.core.commands.condition_run import ConditionRun, earliest_fire_at, extend_run, fires_at
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Limits of one transaction. Creating a command takes a while, so a site with many due rules needs several transactions.
FIRINGS_MAX = 64
SITES_READ_MAX = 64
SITES_LOCKED_MAX = 32
NEVER = 2**62
# The timer evaluates a site at most this often, however the due times of its miners are spread.
WAIT_MIN_MS = 1000


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """How many pairs of rule and miner were evaluated, how many commands were created, and whether work is left."""

    evals: int
    fired: int
    is_more: bool


@dataclass(slots=True)
class _Evaluation:
    """One evaluation of one site: the states whose condition holds, that are due, and that must be written."""

    # Dicts serve as ordered sets: the order of equally urgent rules must be deterministic.
    holding: dict[MinerRuleState, None] = field(default_factory=dict)
    changed: dict[MinerRuleState, None] = field(default_factory=dict)
    due: list[MinerRuleState] = field(default_factory=list)
    evals: int = 0


class RuleEvaluator:
    def __init__(self, actions: RuleActions, gap_seconds: int, sync: RuleSync | None = None) -> None:
        self._actions = actions
        self._gap_ms = gap_seconds * 1000
        self._sync = sync
        self._sites: dict[int, SiteRules] = {}
        self._started_at: int | None = None

    def prepare(self, conn: Connection, site_id: int, samples: list[Sample]) -> SiteRules:
        """Lock and load the site. Must be called before the samples are stored: they would hide older records."""
        conn.lock(SITE_LOCK, site_id)
        site = self._load(conn, site_id)
        if self._sync is not None and site.states:
            by_miner = [site.states.get(miner_id, {}) for miner_id in {sample.miner_id for sample in samples}]
            self._sync.catch_up(conn, [state for states in by_miner for state in states.values()])
        return site

    def evaluate(self, conn: Connection, site: SiteRules, fresh: list[Sample]) -> EvaluationResult:
        """Evaluate the site's rules on the samples, which are the newest of their miners and ordered by time."""
        if not site.rules:
            return EvaluationResult(0, 0, False)
        evaluation = _Evaluation()
        for sample in fresh:
            watched = site.thresholds_for(sample.miner_id)
            evaluation.evals += watched.rule_count
            crossed = watched.thresholds.crossed_by(sample.fields)
            if crossed or sample.miner_id in site.states:
                self._apply_sample(site, sample, crossed, conn.now_ms, evaluation)
        self._collect_due(site, evaluation.holding, conn.now_ms, evaluation)
        # A miner that has just reported may be silent from now on.
        for rule in site.offline_rules:
            site.due_at = min(site.due_at, conn.now_ms + rule.duration_ms)
        return self._fire_due(conn, site, evaluation)

    def tick(self, conn: Connection) -> EvaluationResult:
        """Evaluate the sites where a rule is due without a new sample."""
        evals = fired = 0
        due = self._sites_due(conn)
        is_more = len(due) > SITES_LOCKED_MAX
        for site in self._lock_due(conn, due[:SITES_LOCKED_MAX]):
            result = self._tick_site(conn, site)
            evals, fired = evals + result.evals, fired + result.fired
            is_more = is_more or result.is_more
            if fired >= FIRINGS_MAX:
                return EvaluationResult(evals, fired, True)
        return EvaluationResult(evals, fired, is_more)

    def _apply_sample(
        self, site: SiteRules, sample: Sample, crossed: list[ActiveRule], now_ms: int, evaluation: _Evaluation
    ) -> None:
        """Extend the runs of the rules whose threshold the sample crosses; end the other runs that it decides."""
        states = site.states.setdefault(sample.miner_id, {})
        for rule in crossed:
            state = states.get(rule.id) or site.put(MinerRuleState(rule, sample.miner_id))
            before = state.run
            state.run = extend_run(before, sample.ts, now_ms, self._gap_ms)
            evaluation.holding[state] = None
            if before is None or before.since != state.run.since:
                evaluation.changed[state] = None
        if len(states) > len(crossed):
            self._end_runs(states, sample, crossed, evaluation)

    @staticmethod
    def _end_runs(
        states: dict[int, MinerRuleState], sample: Sample, crossed: list[ActiveRule], evaluation: _Evaluation
    ) -> None:
        still_held = {rule.id for rule in crossed}
        for rule_id, state in states.items():
            is_over = rule_id not in still_held and state.rule.is_decided_by(sample.fields)
            if state.run is not None and is_over:
                state.run = None
                evaluation.changed[state] = None

    def _collect_due(
        self, site: SiteRules, states: Iterable[MinerRuleState], now_ms: int, evaluation: _Evaluation
    ) -> None:
        """Collect the states that are due now, and lower the site's due time to the next one."""
        for state in states:
            if state.run is not None:
                at = fires_at(state.run, state.rule.duration_ms, self._gap_ms, state.quiet_until)
                if at is not None and at <= now_ms:
                    evaluation.due.append(state)
                elif at is not None:
                    site.due_at = min(site.due_at, at)
                elif self._sync is not None:
                    # By the samples of this node it does not become due. Other nodes may receive more samples.
                    at = earliest_fire_at(state.run, state.rule.duration_ms, state.quiet_until)
                    site.due_at = min(site.due_at, at if at > now_ms else NEVER)

    def _fire_due(self, conn: Connection, site: SiteRules, evaluation: _Evaluation) -> EvaluationResult:
        """Fire the due rules, most urgent first, at most `FIRINGS_MAX`; then write the changed states."""
        evaluation.due.sort(key=lambda state: (-state.rule.priority, state.rule.id, state.miner_id))
        fired = 0
        for state in evaluation.due[:FIRINGS_MAX]:
            fired += self._actions.fire(conn, state)
            evaluation.changed[state] = None
            # While the condition holds, the next due time is the end of the cooldown.
            site.due_at = min(site.due_at, max(state.quiet_until, conn.now_ms + WAIT_MIN_MS))
        is_more = len(evaluation.due) > FIRINGS_MAX
        if is_more:
            site.due_at = conn.now_ms
        self._write_states(conn, site, evaluation)
        return EvaluationResult(evaluation.evals, fired, is_more)

    def _write_states(self, conn: Connection, site: SiteRules, evaluation: _Evaluation) -> None:
        if not evaluation.changed:
            return
        empty = [state for state in evaluation.changed if state.is_empty]
        kept = [state for state in evaluation.changed if not state.is_empty]
        conn.run_many(SQL.put_state, [state.columns() for state in kept])
        conn.run_many(SQL.delete_state, [{"rule_id": each.rule.id, "miner_id": each.miner_id} for each in empty])
        for state in empty:
            site.drop(state)
        site.revision = put_revision(conn, site.site_id)

    def _tick_site(self, conn: Connection, site: SiteRules) -> EvaluationResult:
        evaluation = _Evaluation()
        site.due_at = NEVER
        watched = [state for states in site.states.values() for state in states.values() if state.rule.threshold]
        evaluation.evals += len(watched)
        if self._sync is not None:
            self._sync.catch_up(conn, watched)
        self._collect_due(site, watched, conn.now_ms, evaluation)
        if site.offline_rules:
            self._evaluate_offline_rules(conn, site, evaluation)
        return self._fire_due(conn, site, evaluation)

    def _evaluate_offline_rules(self, conn: Connection, site: SiteRules, evaluation: _Evaluation) -> None:
        rules = site.offline_rules
        if self._sync is not None:
            # A miner may report for the first time, to another node, and then be silent.
            soonest_ms = max(min(rule.duration_ms for rule in rules), WAIT_MIN_MS)
            site.due_at = min(site.due_at, conn.now_ms + soonest_ms)
        for row in conn.all(SQL.last_reports, site_id=site.site_id):
            miner_id, silent_since = row["miner_id"], max(row["received_at"], self._started_at or 0)
            for rule in rules:
                if rule.is_for(miner_id):
                    evaluation.evals += 1
                    self._check_silence(site, rule, miner_id, silent_since, conn.now_ms, evaluation)

    @staticmethod
    def _check_silence(
        site: SiteRules, rule: ActiveRule, miner_id: int, silent_since: int, now_ms: int, evaluation: _Evaluation
    ) -> None:
        known = site.states.get(miner_id, {}).get(rule.id)
        due_at = max(silent_since + rule.duration_ms, known.quiet_until if known else 0)
        if due_at > now_ms:
            site.due_at = min(site.due_at, max(due_at, now_ms + WAIT_MIN_MS))
            return
        state = known or site.get_or_add(rule, miner_id)
        state.run = ConditionRun(silent_since, silent_since, silent_since)
        evaluation.due.append(state)

    def _sites_due(self, conn: Connection) -> list[SiteRules]:
        """The sites where a rule is due. Sites that are not in memory or have changed are read first."""
        self._started_at = self._started_at or conn.now_ms
        due = []
        unread = 0
        for row in conn.all(SQL.revisions):
            site = self._sites.get(row["site_id"])
            if site is None or site.revision != row["revision"]:
                unread += 1
                if unread > SITES_READ_MAX:
                    continue
                site = self._read(conn, row["site_id"], row["revision"])
            if site.due_at <= conn.now_ms and site.rules:
                due.append(site)
        return due

    def _lock_due(self, conn: Connection, due: list[SiteRules]) -> list[SiteRules]:
        """Lock the sites; returns those where a rule is still due under the lock."""
        if not due:
            return []
        conn.lock(SITE_LOCK, *(site.site_id for site in due))
        sites = [self._load(conn, site.site_id) for site in due]
        return [site for site in sites if site.due_at <= conn.now_ms and site.rules]

    def _load(self, conn: Connection, site_id: int) -> SiteRules:
        """The site from memory, or from the database if its revision has changed."""
        self._started_at = self._started_at or conn.now_ms
        row = conn.one(SQL.revision, site_id=site_id)
        revision = None if row is None else row["revision"]
        site = self._sites.get(site_id)
        if site is None or site.revision != revision:
            site = self._read(conn, site_id, revision)
        return site

    def _read(self, conn: Connection, site_id: int, revision: int | None) -> SiteRules:
        rules = conn.all(SQL.active_rules, site_id=site_id) if revision is not None else []
        states = conn.all(SQL.states, site_id=site_id) if rules else []
        site = self._sites[site_id] = SiteRules.read(site_id, revision, rules, states)
        return site
