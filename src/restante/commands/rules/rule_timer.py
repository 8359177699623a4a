"""Evaluates rules whose due time passes without new telemetry, at most a few seconds late."""

import asyncio

import structlog

from restante.commands.counters import CommandCounters
from restante.commands.rules.rule_evaluation import RuleEvaluator
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()

INTERVAL_SECONDS = 2.0


class RuleTimer:
    def __init__(self, database: Database, rules: RuleEvaluator, counters: CommandCounters) -> None:
        self._database = database
        self._rules = rules
        self._counters = counters

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("rule evaluation failed, will retry", error=str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    async def run_once(self) -> int:
        """Evaluate until no rule is due; returns the number of commands created."""
        fired = 0
        is_more = True
        while is_more:
            result = await self._database.write(self._rules.tick)
            self._counters.rule_evals += result.evals
            fired += result.fired
            is_more = result.is_more
        return fired
