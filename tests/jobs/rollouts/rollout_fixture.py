"""Rollouts on numbers: the action of the job fixture, with reports that a test writes itself."""

import asyncio
from typing import Any

from restante.core.rollout_rules import RolloutRules
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import access_audit
from restante.identity.grants import ALL_IDS, Area, Role
from restante.jobs.actions import (
    Batch,
    BatchResult,
    ItemResult,
    JobAction,
    JobActions,
    JobCaller,
    Laggard,
    RolloutAction,
    WaveCounts,
    run_each,
)
from restante.jobs.jobs import JobRequest
from restante.jobs.rollouts import rollout_views, rollouts
from restante.jobs.rollouts.controller import RolloutController
from restante.jobs.rollouts.rollout_items import RolloutItems
from restante.jobs.rollouts.rollout_views import RolloutView
from restante.jobs.rollouts.rollouts import RolloutRequest
from restante.jobs.rollouts.waves import Wave
from restante.jobs.runner import JobRunner
from tests.conftest import ManualClock
from tests.jobs.job_fixture import Count, Counting, Even, JobFixture, run_until_idle

ITEMS = Query("items", "SELECT item FROM job_items WHERE job = :job AND state = 'done' ORDER BY item")
OF_ROLLOUT = Query(
    "of_rollout",
    "SELECT i.item, j.wave FROM job_items i JOIN jobs j ON j.id = i.job "
    "WHERE j.rollout = :rollout AND j.wave > 0 AND i.item > :after ORDER BY i.item LIMIT :limit",
)


class RolledOutNumbers(RolloutItems):
    name = "rollout_numbers"
    area = Area.updates


class CountInWaves(Count, RolloutAction[Counting]):
    """Numbers report what the test has written into `reports`."""

    roll_back = (RolledOutNumbers.name, "uncount")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.reports: dict[int, str] = {}
        self.paced = 0

    def wave_counts(self, conn: Connection, job: int) -> WaveCounts:
        states = [self.reports.get(row["item"], "waiting") for row in conn.all(ITEMS, job=job)]
        return WaveCounts(states.count("succeeded"), states.count("failed"), states.count("waiting"))

    def laggards(self, conn: Connection, rollout: int, after: int, limit: int) -> list[Laggard]:
        rows = conn.all(OF_ROLLOUT, rollout=rollout, after=after, limit=limit)
        return [
            Laggard(item=row["item"], name=None, wave=row["wave"], state="waiting", detail=None)
            for row in rows
            if self.reports.get(row["item"]) != "succeeded"
        ]

    def keep_pace(self, conn: Connection) -> None:
        self.paced += 1


class Uncount(JobAction[Even]):
    name = "uncount"
    params_type = Even

    def __init__(self, target: RolledOutNumbers) -> None:
        self.target = target

    def run(self, conn: Connection, batch: Batch, ids: Any) -> BatchResult:
        def uncount(item: int) -> ItemResult:
            access_audit.record_other(conn, batch.actor, "number.uncounted", {"number": item})
            return ItemResult(item)

        return run_each(ids, uncount)


class RolloutFixture(JobFixture):
    def __init__(self, database: Database, clock: ManualClock, highest: int = 100) -> None:
        super().__init__(database, highest)
        self.clock = clock
        self.action = self.rolled = CountInWaves(self.target)
        self.actions = JobActions([self.rolled, Uncount(RolledOutNumbers(access_audit.record_other))])
        self.rollout_id = ""

    def start(self, *planned: Wave, boost: bool = False, **rules: int) -> RolloutView:
        thresholds = {
            "success_percent": 90,
            "error_percent": 10,
            "min_wave_seconds": 10,
            "max_wave_seconds": 0,
            **rules,
        }
        job = JobRequest(
            action=self.rolled, filters=Even(), params=Counting(), caller=self.caller(), role=Role.operator
        )
        request = RolloutRequest(
            job=job, name="numbers", waves=list(planned), rules=RolloutRules(**thresholds), is_boosting=boost
        )
        total = self.database.read_now(self.target.count, Even(), ALL_IDS)
        row = self.database.write_now(rollouts.create, request, total)
        self.rollout_id = row["rollout_id"]
        return self.look()

    def look(self, seconds: float = 2.0) -> RolloutView:
        """Let time pass, look at the rollout, run what is due."""
        self.clock.advance(seconds)

        async def run() -> None:
            await RolloutController(self.database, self.actions, part_of_time=0).run_once()
            await run_until_idle(JobRunner(self.database, self.actions))

        asyncio.run(run())
        return self.shown()

    def shown(self) -> RolloutView:
        return self.database.read_now(
            lambda conn: rollout_views.view(conn, self.actions, rollouts.find(conn, self.rollout_id))
        )

    def report(self, state: str, *numbers: int) -> None:
        self.rolled.reports.update(dict.fromkeys(numbers, state))

    def change(self, change: Any, *args: Any) -> RolloutView:
        self.database.write_now(change, self.actions, self.rollout_id, *args)
        return self.shown()

    def roll_back(self, caller: JobCaller | None = None) -> RolloutView:
        return self.change(rollouts.roll_back, caller or self.caller(), Role.operator)
