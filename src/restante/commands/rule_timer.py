"""The clock of the rules: has those looked at that become due without a sample, a few seconds after they do."""

import asyncio

import structlog

from restante.commands.rule_evaluation import RuleEvaluation
from restante.commands.totals import CommandTotals
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()

INTERVAL_SECONDS = 2.0


class RuleTimer:
    def __init__(self, database: Database, rules: RuleEvaluation, totals: CommandTotals) -> None:
        self._database = database
        self._rules = rules
        self._totals = totals

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("rules could not be looked at, it is tried again", error=str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    async def run_once(self) -> int:
        """Look at the rules until nothing is due; how many commands came of it."""
        fired = 0
        is_more = True
        while is_more:
            evaluated = await self._database.write(self._rules.tick)
            self._totals.rule_evals += evaluated.evals
            fired += evaluated.fired
            is_more = evaluated.is_more
        return fired
