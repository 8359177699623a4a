"""Rollouts as operators see them: the waves with what their items have reported, and the items that lag behind."""

from typing import Literal

import msgspec

from restante.core.decoding import INT64_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity.callers import Operator
from restante.identity.grants import Role
from restante.jobs import jobs
from restante.jobs.actions import JobActions, Laggard
from restante.jobs.rollouts.rollouts import FINAL, action_of, counts_of_job, waves_of
from restante.jobs.rollouts.waves import Wave

SQL = queries_beside(__file__)


class WaveView(msgspec.Struct, frozen=True, kw_only=True):
    """A wave. `succeeded`, `failed` and `waiting` count its items by what they have reported; null in lists."""

    number: int
    rule: Wave
    state: Literal["planned", "running", "done"]
    job_id: str | None = None
    total: int | None = None
    handed_out: int = 0
    succeeded: int | None = 0
    failed: int | None = 0
    waiting: int | None = 0
    started_at: Timestamp | None = None


class RolloutView(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout and its waves. Lists do not count what was reported: `succeeded`, `failed` and `waiting` are null."""

    rollout_id: str
    name: str
    target: str
    action: str
    filter: msgspec.Raw
    params: msgspec.Raw
    state: str
    reason: str | None
    total: int
    succeeded: int | None
    failed: int | None
    waiting: int | None
    wave: int
    waves: list[WaveView]
    success_percent: int
    error_percent: int
    min_wave_seconds: int
    max_wave_seconds: int
    rate_per_second: int | None
    poll_boost: bool
    created_by: str
    created_at: Timestamp
    approved_by: str | None
    finished_at: Timestamp | None
    roll_back_job_id: str | None


def list_page(
    conn: Connection, actions: JobActions, caller: Operator, state: str | None, page: PageRequest
) -> Page[RolloutView]:
    """A page of the rollouts that the caller may see, newest first."""
    found: list[Row] = []
    before, step = page.after or INT64_MAX, page.limit + 1
    while len(found) <= page.limit:
        rows = conn.all(SQL.rollouts, before=before, state=state, limit=step)
        found += [row for row in rows if jobs.is_visible(row, caller, Role.viewer)]
        if len(rows) < step:
            break
        before = rows[-1]["id"]
    return page_of(found, page, "id", lambda row: view(conn, actions, row, counts=False))


def laggards(conn: Connection, actions: JobActions, rollout: Row, page: PageRequest) -> Page[Laggard]:
    """A page of the items that have not reported success."""
    found = action_of(actions, rollout).laggards(conn, rollout["id"], page.after, page.limit + 1)
    shown = found[: page.limit]
    return Page(shown, shown[-1].item if len(found) > page.limit else None)


def view(conn: Connection, actions: JobActions, rollout: Row, *, counts: bool = True) -> RolloutView:
    """The rollout as operators see it. Without `counts` it is cheap, however large its waves are."""
    made = {job["wave"]: job for job in conn.all(SQL.jobs, rollout=rollout["id"])}
    shown = [
        _wave_view(conn, actions, rollout, number, wave, made.get(number), counts=counts)
        for number, wave in enumerate(waves_of(rollout), 1)
    ]
    undo = made.get(0)
    return RolloutView(
        rollout_id=rollout["rollout_id"],
        name=rollout["name"],
        target=rollout["target"],
        action=rollout["action"],
        filter=msgspec.Raw(rollout["filter"].encode()),
        params=msgspec.Raw(rollout["params"].encode()),
        state=rollout["state"],
        reason=rollout["reason"],
        total=rollout["total"],
        succeeded=sum(wave.succeeded or 0 for wave in shown) if counts else None,
        failed=sum(wave.failed or 0 for wave in shown) if counts else None,
        waiting=sum(wave.waiting or 0 for wave in shown) if counts else None,
        wave=rollout["wave"],
        waves=shown,
        success_percent=rollout["success_percent"],
        error_percent=rollout["error_percent"],
        min_wave_seconds=rollout["min_wave_seconds"],
        max_wave_seconds=rollout["max_wave_seconds"],
        rate_per_second=rollout["rate_per_second"],
        poll_boost=bool(rollout["is_boosting"]),
        created_by=rollout["created_by"],
        created_at=iso_precise(rollout["created_at"]),
        approved_by=rollout["approved_by"],
        finished_at=iso_precise(rollout["finished_at"]),
        roll_back_job_id=None if undo is None else undo["job_id"],
    )


def _wave_view(
    conn: Connection, actions: JobActions, rollout: Row, number: int, wave: Wave, job: Row | None, *, counts: bool
) -> WaveView:
    if job is None:
        # A wave without items was passed over.
        return WaveView(number=number, rule=wave, state="planned" if number > rollout["wave"] else "done")
    counted = counts_of_job(conn, actions, rollout, job) if counts else None
    is_over = number < rollout["wave"] or rollout["state"] in FINAL
    return WaveView(
        number=number,
        rule=wave,
        state="done" if is_over else "running",
        job_id=job["job_id"],
        total=job["total"],
        handed_out=job["done"] + job["skipped"],
        succeeded=None if counted is None else counted.succeeded,
        failed=None if counted is None else counted.failed,
        waiting=None if counted is None else counted.waiting,
        started_at=iso_precise(job["created_at"]),
    )
