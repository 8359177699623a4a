"""Bulk jobs and rollouts as one component: their routes, and the services that run them.

The protocols contribute the actions.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from restante.database.commit_events import ForeignCommit
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.retention import Sweep
from restante.identity import access_audit
from restante.jobs import batches, jobs
from restante.jobs.actions import JobAction, JobActions
from restante.jobs.jobs import ITEM_STATES, JobsDue
from restante.jobs.rollouts import rollouts
from restante.jobs.rollouts.controller import RolloutController
from restante.jobs.runner import JobRunner
from restante.server.bulk.routes_jobs import JobRoutes
from restante.server.bulk.routes_rollouts import RolloutRoutes
from restante.web.component import Component, EventHandler, MetricSample, Service
from restante.web.routes import Route

DAY_SECONDS = 86_400
OPEN_ROLLOUT_STATES = ("pending_approval", "running", "paused", "rolling_back")
OPEN_STATES = ("pending_approval", "queued", "running", "paused")


class BulkComponent(Component):
    def __init__(self, database: Database, actions: Iterable[JobAction[Any]], keep_days: int) -> None:
        self._database = database
        self.actions = JobActions(actions)
        self._keep_days = keep_days
        self.runner = JobRunner(database, self.actions)
        self.controller = RolloutController(database, self.actions)
        self._rollout_counts: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def routes(self) -> list[Route]:
        database, actions = self._database, self.actions
        return [*JobRoutes(database, actions).routes(), *RolloutRoutes(database, actions).routes()]

    def services(self) -> list[Service]:
        return [
            Service("jobs", self.runner.run, self.runner.stop, role="jobs"),
            Service("rollouts", self.controller.run, self.controller.stop, role="jobs"),
        ]

    def sweeps(self) -> list[Sweep]:
        keep_seconds = self._keep_days * DAY_SECONDS
        return [
            partial(rollouts.delete_old, keep_seconds=keep_seconds),
            partial(jobs.delete_old, keep_seconds=keep_seconds),
            partial(access_audit.forget_items, keep_seconds=keep_seconds),
        ]

    def release_leases(self, conn: Connection) -> None:
        batches.release_all(conn)

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {JobsDue: lambda _: self.recheck(), ForeignCommit: lambda _: self.recheck()}

    def recheck(self) -> None:
        self.runner.wake()
        self.controller.wake()

    async def read_metrics(self) -> None:
        self._counts = await self._database.read(jobs.counts)
        self._rollout_counts = await self._database.read(rollouts.open_counts)

    def metrics(self) -> Iterable[MetricSample]:
        for state in OPEN_STATES:
            yield MetricSample("restante_jobs", self._counts.get(state, 0), (state,))
        for state in OPEN_ROLLOUT_STATES:
            yield MetricSample("restante_rollouts", self._rollout_counts.get(state, 0), (state,))
        for state in ITEM_STATES:
            yield MetricSample("restante_job_items", self.runner.items[state], (state,))
