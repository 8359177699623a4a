"""How far devices are with what a job sent them by a signal: received, failed, or nothing known yet.

A device confirms signals with the cursor of its next poll. An item counts as received when the device has confirmed a
signal that is not older than the item; it counts as failed if the device has reported a failed signal since.
"""

from typing import Any

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.jobs.actions import Laggard, RolloutAction, WaveCounts
from restante.updates.bulk.device_target import keep_polling_fast

SQL = queries_beside(__file__)

_DETAILS = {"waiting": "it has not confirmed the signal", "failed": "it has reported a failure"}


class ReceivedAction(RolloutAction[Any]):
    """An action whose effect reaches devices by a signal."""

    def outcomes(self, conn: Connection, job: int) -> dict[str, int]:
        return {row["outcome"]: row["devices"] for row in conn.all(SQL.outcomes, job=job)}

    def wave_counts(self, conn: Connection, job: int) -> WaveCounts:
        counted = self.outcomes(conn, job)
        return WaveCounts(counted.get("received", 0), counted.get("failed", 0), counted.get("waiting", 0))

    def laggards(self, conn: Connection, rollout: int, after: int, limit: int) -> list[Laggard]:
        rows = conn.all(SQL.laggards, rollout=rollout, after=after, limit=limit)
        return [
            Laggard(
                item=row["item"],
                name=row["name"] or row["device_public_id"],
                wave=row["wave"],
                state="failed" if row["outcome"] == "failed" else "waiting",
                detail=row["error"] or _DETAILS[row["outcome"]],
            )
            for row in rows
        ]

    def keep_pace(self, conn: Connection) -> None:
        keep_polling_fast(conn)
