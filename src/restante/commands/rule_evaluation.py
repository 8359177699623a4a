"""Evaluating rules: as telemetry arrives, and by the clock for durations that end and miners that fall silent.

    fresh samples ─▶ thresholds crossed ─▶ stretches begin, go on, end ─▶ what is due at the end of the batch ─▶ fires
    timer ─▶ sites with something due ─▶ stretches long enough, miners silent for long enough ─▶ fires

Runs inside write transactions only, and for one site one after another, as it locks it; everything it changes in memory
it writes in the same transaction under a new revision. A transaction that is rolled back takes the revision with it,
and with it all that is in memory for the site: the next one reads it anew. What a batch says at its end counts: a miner
that was hot and has cooled down within it is left alone.

Must always hold: a rule fires for a miner at most once in its cooldown, for a condition that holds by the last that
was heard. Silence is counted from when this server could have heard something: its own absence is nobody's silence.

Where several nodes share the database, others may have heard more of a stretch than this one (`rule_hearing.py`): that
is made up for before anything is judged, and what others alone could make due is looked at by the clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from restante.commands.queue import SITE_LOCK
from restante.commands.rule_firing import Firing
from restante.commands.rule_hearing import OthersHeard
from restante.commands.rule_standing import ActiveRule, SiteRules, Standing
from restante.commands.rules import put_revision
from restante.commands.telemetry_records import Sample
from restante.core.holding import Holding, acts_at, held_on, long_enough_at
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Making a command takes a while: a site that is all ablaze is served in several transactions.
FIRINGS_MAX = 64
# The same for sites whose rules have to be read.
SITES_READ_MAX = 64
# And for sites that are to be locked.
SITES_LOCKED_MAX = 32
NEVER = 2**62
# What is not due yet is not looked at more often than this, however the moments of many miners lie.
LEAST_WAIT_MS = 1000


class Evaluated(NamedTuple):
    """How many times a rule was held against a miner, how many commands came of it, and whether work is left."""

    evals: int
    fired: int
    is_more: bool


@dataclass(slots=True)
class _Pass:
    """One evaluation of one site: whose condition holds, what is due, and where something is to be written."""

    # Sets that keep their order: which of two equally urgent rules fires first must not depend on chance.
    held: dict[Standing, None] = field(default_factory=dict)
    changed: dict[Standing, None] = field(default_factory=dict)
    due: list[Standing] = field(default_factory=list)
    evals: int = 0


class RuleEvaluation:
    def __init__(self, firing: Firing, gap_seconds: int, others: OthersHeard | None = None) -> None:
        self._firing = firing
        self._gap_ms = gap_seconds * 1000
        self._others = others
        self._sites: dict[int, SiteRules] = {}
        self._awake_since: int | None = None

    def ready(self, conn: Connection, site_id: int, samples: list[Sample]) -> SiteRules:
        """The site as it is before the samples are stored: what was heard until then is still to be seen."""
        conn.lock(SITE_LOCK, site_id)
        site = self._site(conn, site_id)
        if self._others is not None and site.standings:
            known = [site.standings.get(miner_id, {}) for miner_id in {sample.miner_id for sample in samples}]
            self._others.catch_up(conn, [standing for of_miner in known for standing in of_miner.values()])
        return site

    def observe(self, conn: Connection, site: SiteRules, fresh: list[Sample]) -> Evaluated:
        """Hold the samples, which are the newest of their miners and in the order of time, against the site's rules."""
        if not site.rules:
            return Evaluated(0, 0, False)
        found = _Pass()
        for sample in fresh:
            plan = site.plan_for(sample.miner_id)
            found.evals += plan.rule_count
            crossed = plan.thresholds.crossed_by(sample.fields)
            if crossed or sample.miner_id in site.standings:
                self._judge(site, sample, crossed, conn.now_ms, found)
        self._sort_out(site, found.held, conn.now_ms, found)
        # Whoever reports may be silent from now on.
        for rule in site.offline_rules:
            site.due_at = min(site.due_at, conn.now_ms + rule.duration_ms)
        return self._conclude(conn, site, found)

    def tick(self, conn: Connection) -> Evaluated:
        """Look after the sites where something is due that no sample has brought about."""
        evals = fired = 0
        due = self._sites_due(conn)
        is_more = len(due) > SITES_LOCKED_MAX
        for site in self._locked(conn, due[:SITES_LOCKED_MAX]):
            outcome = self._tick_site(conn, site)
            evals, fired = evals + outcome.evals, fired + outcome.fired
            is_more = is_more or outcome.is_more
            if fired >= FIRINGS_MAX:
                return Evaluated(evals, fired, True)
        return Evaluated(evals, fired, is_more)

    def _judge(self, site: SiteRules, sample: Sample, crossed: list[ActiveRule], now_ms: int, found: _Pass) -> None:
        """Carry on the stretches of the rules that the sample crosses, end those of others it tells about."""
        standings = site.standings.setdefault(sample.miner_id, {})
        for rule in crossed:
            standing = standings.get(rule.id) or site.put(Standing(rule, sample.miner_id))
            before = standing.holding
            standing.holding = held_on(before, sample.ts, now_ms, self._gap_ms)
            found.held[standing] = None
            if before is None or before.since != standing.holding.since:
                found.changed[standing] = None
        if len(standings) > len(crossed):
            self._end_others(standings, sample, crossed, found)

    @staticmethod
    def _end_others(standings: dict[int, Standing], sample: Sample, crossed: list[ActiveRule], found: _Pass) -> None:
        still_held = {rule.id for rule in crossed}
        for rule_id, standing in standings.items():
            is_over = rule_id not in still_held and standing.rule.is_told_about_by(sample.fields)
            if standing.holding is not None and is_over:
                standing.holding = None
                found.changed[standing] = None

    def _sort_out(self, site: SiteRules, standings: Iterable[Standing], now_ms: int, found: _Pass) -> None:
        """Which of the standings are due now; the site remembers when the next one is."""
        for standing in standings:
            if standing.holding is not None:
                at = acts_at(standing.holding, standing.rule.duration_ms, self._gap_ms, standing.quiet_until)
                if at is not None and at <= now_ms:
                    found.due.append(standing)
                elif at is not None:
                    site.due_at = min(site.due_at, at)
                elif self._others is not None:
                    # As far as is known here it does not become due. Others may come to know more.
                    at = long_enough_at(standing.holding, standing.rule.duration_ms, standing.quiet_until)
                    site.due_at = min(site.due_at, at if at > now_ms else NEVER)

    def _conclude(self, conn: Connection, site: SiteRules, found: _Pass) -> Evaluated:
        """Fire what is due, the most urgent first and not too many at once, and write down what has changed."""
        found.due.sort(key=lambda standing: (-standing.rule.priority, standing.rule.id, standing.miner_id))
        fired = 0
        for standing in found.due[:FIRINGS_MAX]:
            fired += self._firing.fire(conn, standing)
            found.changed[standing] = None
            # While the condition holds, the end of the cooldown is the next moment to look.
            site.due_at = min(site.due_at, max(standing.quiet_until, conn.now_ms + LEAST_WAIT_MS))
        is_more = len(found.due) > FIRINGS_MAX
        if is_more:
            site.due_at = conn.now_ms
        self._write(conn, site, found)
        return Evaluated(found.evals, fired, is_more)

    def _write(self, conn: Connection, site: SiteRules, found: _Pass) -> None:
        if not found.changed:
            return
        blank = [standing for standing in found.changed if standing.is_blank]
        kept = [standing for standing in found.changed if not standing.is_blank]
        conn.run_many(SQL.put_state, [standing.columns() for standing in kept])
        conn.run_many(SQL.forget_state, [{"rule_id": each.rule.id, "miner_id": each.miner_id} for each in blank])
        for standing in blank:
            site.drop(standing)
        site.revision = put_revision(conn, site.site_id)

    def _tick_site(self, conn: Connection, site: SiteRules) -> Evaluated:
        found = _Pass()
        site.due_at = NEVER
        watched = [each for of_miner in site.standings.values() for each in of_miner.values() if each.rule.threshold]
        found.evals += len(watched)
        if self._others is not None:
            self._others.catch_up(conn, watched)
        self._sort_out(site, watched, conn.now_ms, found)
        if site.offline_rules:
            self._find_silent(conn, site, found)
        return self._conclude(conn, site, found)

    def _find_silent(self, conn: Connection, site: SiteRules, found: _Pass) -> None:
        rules = site.offline_rules
        if self._others is not None:
            # Who has reported for the first time, and to another node, may be silent after that.
            soonest_ms = max(min(rule.duration_ms for rule in rules), LEAST_WAIT_MS)
            site.due_at = min(site.due_at, conn.now_ms + soonest_ms)
        for row in conn.all(SQL.heard, site_id=site.site_id):
            miner_id, silent_since = row["miner_id"], max(row["received_at"], self._awake_since or 0)
            for rule in rules:
                if rule.is_for(miner_id):
                    found.evals += 1
                    self._check_silence(site, rule, miner_id, silent_since, conn.now_ms, found)

    @staticmethod
    def _check_silence(
        site: SiteRules, rule: ActiveRule, miner_id: int, silent_since: int, now_ms: int, found: _Pass
    ) -> None:
        known = site.standings.get(miner_id, {}).get(rule.id)
        due_at = max(silent_since + rule.duration_ms, known.quiet_until if known else 0)
        if due_at > now_ms:
            site.due_at = min(site.due_at, max(due_at, now_ms + LEAST_WAIT_MS))
            return
        standing = known or site.standing(rule, miner_id)
        standing.holding = Holding(silent_since, silent_since, silent_since)
        found.due.append(standing)

    def _sites_due(self, conn: Connection) -> list[SiteRules]:
        """The sites with something due; those whose rules are not in memory, or are others by now, are read first."""
        self._awake_since = self._awake_since or conn.now_ms
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

    def _locked(self, conn: Connection, due: list[SiteRules]) -> list[SiteRules]:
        """Those of the sites where something is still due, now that nobody else looks after them."""
        if not due:
            return []
        conn.lock(SITE_LOCK, *(site.site_id for site in due))
        sites = [self._site(conn, site.site_id) for site in due]
        return [site for site in sites if site.due_at <= conn.now_ms and site.rules]

    def _site(self, conn: Connection, site_id: int) -> SiteRules:
        self._awake_since = self._awake_since or conn.now_ms
        row = conn.one(SQL.revision, site_id=site_id)
        revision = None if row is None else row["revision"]
        site = self._sites.get(site_id)
        if site is None or site.revision != revision:
            site = self._read(conn, site_id, revision)
        return site

    def _read(self, conn: Connection, site_id: int, revision: int | None) -> SiteRules:
        rules = conn.all(SQL.active_rules, site_id=site_id) if revision is not None else []
        standings = conn.all(SQL.standings, site_id=site_id) if rules else []
        site = self._sites[site_id] = SiteRules.read(site_id, revision, rules, standings)
        return site
