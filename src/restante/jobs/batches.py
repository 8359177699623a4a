"""Batches: the engine's transactions. One batch acts on the next items of a job and records their results.

    lock the job ─▶ is the lease still ours? ─▶ grants of the creator now ─▶ next ids ─▶ action ─▶ results, position
    └────────────────────────────────────── one transaction ──────────────────────────────────────────────────────┘

Invariants: an item's effect, its result and the position of the job are committed together, so each item is acted on
once and none is skipped, whenever a process is killed. Only the holder of the lease runs a batch; a holder whose lease
has ended finds that out under the lock of the job and does nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.core.errors import RestanteError
from restante.database.connection import Connection, Row
from restante.database.errors import DatabaseUnavailable, LockHeld, TransactionConflict
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds
from restante.jobs import creators, jobs
from restante.jobs.actions import Batch, BatchResult, IdPage, ItemResult, JobAction, JobActions, failed

SQL = queries_beside(__file__)

# Errors that say nothing about an item: the same batch may succeed later.
TRANSIENT = (DatabaseUnavailable, TransactionConflict, LockHeld)


class ItemRaised(Exception):
    """A single item raised an unexpected error; its transaction was rolled back."""

    def __init__(self, item: int, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.item = item


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a batch did. `is_held`: the job goes on, and this runner keeps its lease until `run_at`."""

    is_held: bool
    run_at: int = 0
    items: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """The items of the next batch of an action that prepares them, and the plan for its `make`."""

    action: JobAction[Any]
    ids: list[int]
    plan: Any


ENDED = BatchOutcome(is_held=False)
NO_MORE = IdPage([], None)


def has_due(conn: Connection) -> bool:
    return conn.one(SQL.has_due, now_ms=conn.now_ms) is not None


def lease_due(conn: Connection, owner: str, lease_seconds: float, limit: int) -> list[int]:
    """Lease jobs that no node runs; return them."""
    conn.lock("jobs", 0)
    due = [row["id"] for row in conn.all(SQL.due, now_ms=conn.now_ms, limit=limit)]
    for job in due:
        conn.run(SQL.lease, id=job, owner=owner, lease_until=_lease_until(conn, lease_seconds))
    return due


def seconds_until_due(conn: Connection) -> float | None:
    """How long until a job that no node runs is due; None if there is none."""
    row = conn.one(SQL.next_due)
    due_at = None if row is None else row["due_at"]
    return None if due_at is None else max(0.0, (due_at - conn.now_ms) / 1000)


def extend_lease(conn: Connection, owner: str, lease_seconds: float, job_pk: int) -> None:
    """Keep the lease for longer: items are prepared outside a transaction, which may take a while."""
    if _held(conn, owner, job_pk) is not None:
        conn.run(SQL.lease, id=job_pk, owner=owner, lease_until=_lease_until(conn, lease_seconds))


def release(conn: Connection, owner: str) -> int:
    return conn.run(SQL.release, owner=owner)


def release_all(conn: Connection) -> int:
    """Release all leases. Only while no runner is alive."""
    return conn.run(SQL.release_all)


def prepare(conn: Connection, actions: JobActions, owner: str, job_pk: int, items_max: int) -> PreparedBatch | None:
    """Read the items of the next batch and what the action needs to prepare them; None if it prepares nothing."""
    job = conn.one(SQL.held, id=job_pk, owner=owner, now_ms=conn.now_ms)
    action = None if job is None else actions.find(job["target"], job["action"])
    allowed = None if job is None else creators.allowed_now(conn, job)
    if job is None or action is None or allowed is None or not action.has_preparation:
        return None
    ids = _next_page(conn, action, job, allowed, items_max).ids
    return PreparedBatch(action, ids, action.plan(conn, _batch(job, action, allowed, {}), ids)) if ids else None


def run_batch(
    conn: Connection,
    actions: JobActions,
    owner: str,
    lease_seconds: float,
    job_pk: int,
    items_max: int,
    made: Mapping[int, Any] | None = None,
) -> BatchOutcome:
    """Act on the next items of the job. `made`: what was prepared; items without an entry are not acted on."""
    job = _held(conn, owner, job_pk)
    if job is None:
        return ENDED
    action = actions.find(job["target"], job["action"])
    if action is None:
        jobs.end_by_engine(conn, actions, job, "failed", f"this server has no action {job['target']}.{job['action']}")
        return ENDED
    allowed = creators.allowed_now(conn, job)
    if allowed is None:
        jobs.end_by_engine(conn, actions, job, "paused", creators.NO_RIGHTS)
        return ENDED
    try:
        page = _next_page(conn, action, job, allowed, items_max)
    except RestanteError as error:
        # The filter has lost its meaning: it names something that was removed meanwhile.
        jobs.end_by_engine(conn, actions, job, "failed", error.message)
        return ENDED
    if not page.ids and page.next is None:
        jobs.end_by_engine(conn, actions, job, "done", None)
        return ENDED
    ids = _prepared_first(page.ids, made or {}) if action.has_preparation else page.ids
    result = _act(conn, action, _batch(job, action, allowed, made or {}), ids)
    # Behind the examined rows, if all those that match were acted on.
    is_complete = len(result.results) == len(page.ids) and page.next is not None
    return _record(conn, job, result, lease_seconds, page.next if is_complete else None)


def record_failure(conn: Connection, owner: str, lease_seconds: float, job_pk: int, raised: ItemRaised) -> BatchOutcome:
    """Record that the next item failed with an unexpected error, and go on behind it."""
    job = _held(conn, owner, job_pk)
    if job is None:
        return ENDED
    return _record(conn, job, BatchResult([failed(raised.item, raised)]), lease_seconds)


def give_up(conn: Connection, actions: JobActions, owner: str, job_pk: int, reason: str) -> None:
    """The job cannot go on: not even its next items can be read."""
    job = _held(conn, owner, job_pk)
    if job is not None:
        jobs.end_by_engine(conn, actions, job, "failed", reason[: jobs.REASON_CHARACTERS_MAX])


def _held(conn: Connection, owner: str, job_pk: int) -> Row | None:
    conn.lock("job", job_pk)
    return conn.one(SQL.held, id=job_pk, owner=owner, now_ms=conn.now_ms)


def _next_page(conn: Connection, action: JobAction[Any], job: Row, allowed: AllowedIds, items_max: int) -> IdPage:
    limit = min(items_max, action.batch_items)
    if job["rate_per_second"] is not None:
        limit = min(limit, job["rate_per_second"])
    if job["items_max"] is not None:
        limit = min(limit, job["items_max"] - job["done"] - job["failed"] - job["skipped"])
    if limit <= 0:
        return NO_MORE
    target = action.target
    filters = msgspec.json.decode(job["filter"], type=target.filter_type)
    ids, next_id = target.ids_after(conn, filters, allowed, job["after_id"], limit)
    is_end = next_id is None or next_id >= job["through_id"]
    ids = [item for item in ids if item <= job["through_id"]]
    if job["wave"] and ids:
        earlier = conn.values(SQL.in_earlier_wave, rollout=job["rollout"], ids=msgspec.json.encode(ids).decode())
        ids = [item for item in ids if (item,) not in set(earlier)]
    return IdPage(ids, None if is_end else next_id)


def _prepared_first(ids: Sequence[int], made: Mapping[int, Any]) -> list[int]:
    """The items up to the first one that was not prepared: a row may have begun to match meanwhile."""
    count = next((number for number, item in enumerate(ids) if item not in made), len(ids))
    return list(ids[:count])


def _batch(job: Row, action: JobAction[Any], allowed: AllowedIds, made: Mapping[int, Any]) -> Batch:
    return Batch(
        job["id"],
        job["job_id"],
        job["created_by"],
        tuple(msgspec.json.decode(job["identities"], type=list[str])),
        allowed,
        msgspec.json.decode(job["params"], type=action.params_type),
        job["sealed_params"],
        job["created_at"],
        job["approved_by"],
        job["rollout"],
        made,
    )


def _act(conn: Connection, action: JobAction[Any], batch: Batch, ids: Sequence[int]) -> BatchResult:
    if not ids:
        return BatchResult([])
    try:
        return action.run(conn, batch, ids)
    except TRANSIENT:
        raise
    except Exception as error:
        if len(ids) == 1:
            raise ItemRaised(ids[0], error) from error
        raise


def _record(
    conn: Connection, job: Row, result: BatchResult, lease_seconds: float, after_id: int | None = None
) -> BatchOutcome:
    results = result.results
    if after_id is None:
        after_id = results[-1].item if results else job["after_id"]
    counts = {state: sum(1 for each in results if each.state == state) for state in jobs.ITEM_STATES}
    run_at = conn.now_ms
    if job["rate_per_second"] is not None:
        run_at += len(results) * 1000 // job["rate_per_second"]
    if result.retry_after_seconds is not None:
        run_at = max(run_at, conn.now_ms + result.retry_after_seconds * 1000)
    conn.run_rows(SQL.insert_item, [_item_row(conn, job, each) for each in results])
    conn.run(
        SQL.advance,
        id=job["id"],
        after_id=after_id,
        run_at=run_at,
        # A job that must wait keeps its lease until then, so that no other node looks at it in vain.
        lease_until=max(_lease_until(conn, lease_seconds), run_at + int(lease_seconds * 1000)),
        now_ms=conn.now_ms,
        **counts,
    )
    return BatchOutcome(True, run_at, counts)


def _item_row(conn: Connection, job: Row, each: ItemResult) -> tuple[Any, ...]:
    return (job["id"], each.item, each.state, each.ref, each.result, each.error, conn.now_ms)


def _lease_until(conn: Connection, lease_seconds: float) -> int:
    return conn.now_ms + int(lease_seconds * 1000)
