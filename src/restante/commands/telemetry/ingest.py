"""Accept a telemetry batch: store it, evaluate the rules on it, count it.

A batch is written in parts, each in its own transaction, so that a large batch does not block the writer for other
requests. A collector may send the whole batch again after an error: records that are already stored change nothing.
"""

from dataclasses import dataclass

from restante.commands.collector_budgets import CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.commands.rules.rule_evaluation import RuleEvaluator
from restante.commands.telemetry import telemetry
from restante.commands.telemetry.telemetry_records import Batch, RecordError, Sample
from restante.database.connection import Connection
from restante.database.database import Database

PART_RECORDS = 500


@dataclass(frozen=True, slots=True)
class IngestResult:
    processed: int
    errors: list[RecordError]
    received_at: int
    # How many of the processed records are of miners that are not registered.
    unknown_count: int


@dataclass(frozen=True, slots=True)
class _PartResult:
    errors: list[RecordError]
    evals: int
    received_at: int
    unknown_count: int


@dataclass(frozen=True, slots=True)
class TelemetryIngest:
    database: Database
    rules: RuleEvaluator
    counters: CommandCounters
    # How many records of each miner are kept.
    history_records: int
    # How many miners that are not registered a site may have.
    unknown_miners_max: int
    budgets: CollectorBudgets

    async def accept(self, site_id: int, batch: Batch) -> IngestResult:
        """Store the batch of one of the site's collectors; returns when it is durable."""
        errors = list(batch.errors)
        received_at = unknown_count = 0
        # Sort the whole batch by time: otherwise one part would make the records of the next part late.
        samples = sorted(batch.samples, key=lambda sample: sample.ts)
        # A batch without a valid record is written as one empty part, because `received_at` comes from the database.
        for start in range(0, max(1, len(samples)), PART_RECORDS):
            part = await self.database.write(self._accept_part, site_id, samples[start : start + PART_RECORDS])
            errors += part.errors
            received_at = part.received_at
            unknown_count += part.unknown_count
            self.counters.rule_evals += part.evals
            self.counters.count_unknown(site_id, "telemetry", part.unknown_count)
        processed = len(samples) + len(batch.errors) - len(errors)
        if processed:
            lag_ms = received_at - sum(sample.ts for sample in samples) / len(samples)
            self.counters.telemetry_lag_seconds = max(0.0, lag_ms / 1000)
        return IngestResult(processed, sorted(errors, key=lambda error: error.index), received_at, unknown_count)

    def _accept_part(self, conn: Connection, site_id: int, samples: list[Sample]) -> _PartResult:
        site = self.rules.prepare(conn, site_id, samples)
        stored = telemetry.store(conn, site_id, samples, self.history_records, self.unknown_miners_max)
        evaluation = self.rules.evaluate(conn, site, stored.fresh)
        return _PartResult(stored.errors, evaluation.evals, stored.received_at, stored.unknown_count)
