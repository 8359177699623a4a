"""Taking telemetry in: store it, hold it against the rules, count it. A batch is written a part at a time, so that a
large one does not keep the writer from everybody else; who sends it again after an error changes nothing by that."""

from dataclasses import dataclass
from typing import NamedTuple

from restante.commands import telemetry
from restante.commands.rule_evaluation import RuleEvaluation
from restante.commands.telemetry_records import Batch, RecordError, Sample
from restante.commands.totals import CommandTotals
from restante.database.connection import Connection
from restante.database.database import Database

PART = 500


class Taken(NamedTuple):
    processed: int
    errors: list[RecordError]
    received_at: int


class _Part(NamedTuple):
    errors: list[RecordError]
    evals: int
    received_at: int


@dataclass(frozen=True, slots=True)
class Ingest:
    database: Database
    rules: RuleEvaluation
    totals: CommandTotals
    # How many records of a miner are kept.
    keep: int

    async def take(self, site_id: int, batch: Batch) -> Taken:
        """Take the batch of one of the site's collectors; what became of it, when that is durable."""
        errors = list(batch.errors)
        received_at = 0
        # In the order of time over the whole batch: a part must not make the next one's records late.
        samples = sorted(batch.samples, key=lambda sample: sample.ts)
        # A batch without one good record is a part too: the answer's time is the database's.
        for start in range(0, max(1, len(samples)), PART):
            part = await self.database.write(self._take_part, site_id, samples[start : start + PART])
            errors += part.errors
            received_at = part.received_at
            self.totals.rule_evals += part.evals
        processed = len(samples) + len(batch.errors) - len(errors)
        if processed:
            lag_ms = received_at - sum(sample.ts for sample in samples) / len(samples)
            self.totals.telemetry_lag_seconds = max(0.0, lag_ms / 1000)
        return Taken(processed, sorted(errors, key=lambda error: error.index), received_at)

    def _take_part(self, conn: Connection, site_id: int, samples: list[Sample]) -> _Part:
        site = self.rules.ready(conn, site_id, samples)
        stored = telemetry.store(conn, site_id, samples, self.keep)
        evaluated = self.rules.observe(conn, site, stored.fresh)
        return _Part(stored.errors, evaluated.evals, stored.received_at)
