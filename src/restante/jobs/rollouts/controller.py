"""The controller of rollouts: looks at each running rollout from time to time and decides what follows.

    due? ─▶ lock ─▶ count the reports of the current wave ─▶ decide (core.rollout_rules) ─▶ next wave · pause · wait
    └──────────────────────────────── one transaction ────────────────────────────────────────────────────────┘

Any node may look at any rollout: the lock, and the time of the next look that is written with it, let one of them do it
at a time. A look that finds nothing to do writes that time only. Counting the reports of a large wave takes a while:
the longer it took, the later is the next look.
"""

import time
from typing import Any

import structlog

from restante.core.errors import RestanteError
from restante.core.rollout_rules import Decision, WaveProgress, decide
from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.delivery.wakeup import Wakeup
from restante.jobs.actions import JobActions
from restante.jobs.batches import TRANSIENT
from restante.jobs.jobs import ENDED
from restante.jobs.rollouts import rollouts

SQL = queries_beside(__file__)
log = structlog.get_logger()

LOOK_SECONDS = 2.0
# Looks take at most one part of so many of the time.
PART_OF_TIME = 20
ROLLOUTS_MAX = 100


class RolloutController:
    def __init__(self, database: Database, actions: JobActions, part_of_time: int = PART_OF_TIME) -> None:
        self._database = database
        self._actions = actions
        self._part_of_time = part_of_time
        self._wakeup = Wakeup()
        self.wake = self._wakeup.wake
        self.stop = self._wakeup.stop

    async def run(self) -> None:
        while not self._wakeup.is_stopping:
            try:
                await self.run_once()
            except TRANSIENT as error:
                log.warning("rollouts wait because the database does not answer", error=str(error))
            await self._wakeup.wait(LOOK_SECONDS)

    async def run_once(self) -> int:
        """Look at every rollout that is due; return how many were."""
        due = await self._database.read(due_rollouts)
        for rollout_id in due:
            try:
                await self._database.write(look_at, self._actions, rollout_id, self._part_of_time)
            except TRANSIENT:
                raise
            except Exception as error:
                log.error("rollout check failed", rollout=rollout_id, error=f"{type(error).__name__}: {error}")
        return len(due)


def due_rollouts(conn: Connection) -> list[str]:
    return [row["rollout_id"] for row in conn.all(SQL.due, now_ms=conn.now_ms, limit=ROLLOUTS_MAX)]


def look_at(conn: Connection, actions: JobActions, rollout_id: str, part_of_time: int = PART_OF_TIME) -> None:
    """Do what the rollout needs now, and set the time of the next look."""
    rollout = rollouts.lock(conn, rollout_id)
    if rollout["check_at"] > conn.now_ms or rollout["state"] not in ("running", "rolling_back"):
        return
    began = time.monotonic()
    if rollout["state"] == "rolling_back":
        _look_at_roll_back(conn, actions, rollout)
    elif rollout["wave"] == 0:
        _next_wave(conn, actions, rollout)
    else:
        _look_at_wave(conn, actions, rollout)
    pause_seconds = max(LOOK_SECONDS, part_of_time * (time.monotonic() - began))
    conn.run(SQL.check_later, id=rollout["id"], check_at=conn.now_ms + int(pause_seconds * 1000))


def _look_at_wave(conn: Connection, actions: JobActions, rollout: Row) -> None:
    job = conn.one(SQL.job_of_wave, rollout=rollout["id"], wave=rollout["wave"])
    if job is None:
        rollouts.pause(conn, actions, rollout["rollout_id"], "restante", "the job of the wave was deleted")
        return
    if job["state"] in ("paused", "failed", "aborted"):
        reason = f"the job of wave {rollout['wave']} is {job['state']}: {job['reason']}"
        rollouts.pause(conn, actions, rollout["rollout_id"], "restante", reason)
        return
    verdict = decide(rollouts.rules_of(rollout), _progress(conn, actions, rollout, job))
    if verdict.decision is Decision.pause:
        rollouts.pause(conn, actions, rollout["rollout_id"], "restante", verdict.reason)
    elif verdict.decision is Decision.advance:
        _next_wave(conn, actions, rollout)
    elif rollout["is_boosting"]:
        rollouts.action_of(actions, rollout).keep_pace(conn)


def _progress(conn: Connection, actions: JobActions, rollout: Row, job: Row) -> WaveProgress:
    counted = rollouts.counts_of_wave(conn, actions, rollout, rollout["wave"])
    return WaveProgress(
        planned=job["total"],
        succeeded=counted.succeeded,
        failed=counted.failed,
        waiting=counted.waiting,
        is_handed_out=job["state"] in ENDED,
        elapsed_seconds=(conn.now_ms - rollout["wave_started_at"]) / 1000,
        accepted_failures=rollout["accepted_failures"],
    )


def _next_wave(conn: Connection, actions: JobActions, rollout: Row) -> None:
    try:
        rollouts.next_wave(conn, actions, rollout)
    except RestanteError as error:
        # The filter names something that was removed meanwhile.
        rollouts.pause(conn, actions, rollout["rollout_id"], "restante", error.message)


def _look_at_roll_back(conn: Connection, actions: JobActions, rollout: Row) -> None:
    job: Any = conn.one(SQL.job_of_wave, rollout=rollout["id"], wave=0)
    if job is None or job["state"] in ENDED:
        rollouts.end_roll_back(conn, actions, rollout)
