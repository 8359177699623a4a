"""The items of a rollout as the target of a job: those that a wave has acted on, to undo it.

The target belongs to a protocol, which names it and records changes in its own audit trail.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds
from restante.jobs.actions import IdPage, JobTarget, id_page

SQL = queries_beside(__file__)

Record = Callable[[Connection, str, str, dict[str, Any]], None]


class RolloutFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The items of the rollout with this row id."""

    rollout: int


class RolloutItems(JobTarget[RolloutFilter]):
    filter_type = RolloutFilter

    def __init__(self, record: Record) -> None:
        self._record = record

    def check(self, conn: Connection, filters: RolloutFilter, allowed: AllowedIds) -> None:
        """The rollout was checked when it was created."""

    def scope(self, filters: RolloutFilter, allowed: AllowedIds) -> AllowedIds:  # noqa: ARG002
        return allowed

    def count(self, conn: Connection, filters: RolloutFilter, allowed: AllowedIds) -> int:  # noqa: ARG002
        row = conn.one(SQL.count, rollout=filters.rollout)
        return 0 if row is None else int(row["items"])

    def sample(self, conn: Connection, filters: RolloutFilter, allowed: AllowedIds, limit: int) -> list[Any]:
        return list(self.ids_after(conn, filters, allowed, 0, limit).ids)

    def newest_id(self, conn: Connection) -> int:
        row = conn.one(SQL.newest)
        return 0 if row is None or row["item"] is None else int(row["item"])

    def ids_after(
        self,
        conn: Connection,
        filters: RolloutFilter,
        allowed: AllowedIds,  # noqa: ARG002
        after: int,
        limit: int,
    ) -> IdPage:
        rows = conn.all(SQL.items_after, rollout=filters.rollout, after=after, limit=limit)
        return id_page([row["item"] for row in rows], limit)

    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        self._record(conn, actor, event, detail)


def results_of(conn: Connection, rollout: int, ids: str) -> dict[int, str | None]:
    """What the rollout made of these items, by item. `ids`: a JSON list."""
    return {row["item"]: row["result"] for row in conn.all(SQL.results, rollout=rollout, ids=ids)}
