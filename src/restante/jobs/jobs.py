"""Jobs: creating, showing, pausing, resuming, aborting and approving them.

    pending_approval ─approve─▶ queued ─▶ running ─▶ done
            │                     ▲ │        │ │
            │                resume │pause   │ └─ the engine gives up ─▶ failed
            └── deny ─▶ aborted   └─┴─ paused ┴── abort ─▶ aborted

A job covers the rows that match its filter when the engine reaches them, in the order of their ids, up to the highest
id at its creation (decision 0150). `total` is the number of rows that matched at its creation.

This module does not know how batches are run (`batches.py`), and nothing of HTTP.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import msgspec

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput, Conflict, NotAllowed, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity.callers import ApiKeyCaller, Operator, Person
from restante.identity.grants import AllowedIds, Area, Role
from restante.jobs.actions import JobAction, JobActions, JobCaller, StoredParams

SQL = queries_beside(__file__)

RATE_MAX = 100_000
SAMPLE_ITEMS = 10
SWEEP_ROWS = 1000
REASON_CHARACTERS_MAX = 500

_JOB_ID = re.compile("job_[0-9a-f]{24}", re.ASCII)

JobState = Literal["pending_approval", "queued", "running", "paused", "done", "aborted", "failed"]
STATES: tuple[str, ...] = get_args(JobState)
ENDED = frozenset({"done", "aborted", "failed"})
ITEM_STATES = ("done", "failed", "skipped")


class JobsDue(ClusterMessage, frozen=True, tag="jobs"):
    """There may be a job to run."""

    work_role: ClassVar[str] = "jobs"


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its progress. `total`: how many rows matched when it was created. `done`, `failed`, `skipped`: items.

    `outcomes`, for actions that only start something: what became of it, by state. A bulk send of commands shows how
    many of them are pending, succeeded or failed.
    """

    job_id: str
    target: str
    action: str
    filter: msgspec.Raw
    params: msgspec.Raw
    state: str
    reason: str | None
    total: int
    done: int
    failed: int
    skipped: int
    rate_per_second: int | None
    created_by: str
    created_at: Timestamp
    approved_by: str | None
    started_at: Timestamp | None
    finished_at: Timestamp | None
    outcomes: dict[str, int] | None = None


class JobItemView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one item. `ref`: its public name. `result`: the name of what the action made.

    `outcome`, for actions that only start something: the state of that now, for example of the command.
    """

    item: int
    state: str
    ref: str | None
    result: str | None
    error: str | None
    at: Timestamp
    outcome: str | None = None


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a job would act on: how many rows match now, and some of them."""

    dry_run: bool
    total: int
    sample: list[Any]
    needs_approval: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A request for a job. `role`: what the creator needs in the area, now and while the job runs."""

    action: JobAction[Any]
    filters: Any
    params: Any
    caller: JobCaller
    role: Role
    rate_per_second: int | None = None
    # What was stored of the parameters before: of a rollout, whose waves are jobs.
    stored: StoredParams | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveOf:
    """The job is a wave of a rollout: it begins after an item, and ends after a number of items."""

    rollout: int
    wave: int
    after_id: int = 0
    items_max: int | None = None
    approved_by: str | None = None


def count(conn: Connection, request: JobRequest) -> int:
    """Check the filter, and count the rows that match."""
    target, allowed = request.action.target, request.caller.allowed
    target.check(conn, request.filters, allowed)
    return target.count(conn, request.filters, allowed)


def dry_run(conn: Connection, request: JobRequest) -> DryRun:
    """Check the request and count what it would act on."""
    action, target, caller = request.action, request.action.target, request.caller
    target.check(conn, request.filters, caller.allowed)
    action.check(conn, request.filters, request.params, caller)
    return DryRun(
        dry_run=True,
        total=target.count(conn, request.filters, caller.allowed),
        sample=target.sample(conn, request.filters, caller.allowed, SAMPLE_ITEMS),
        needs_approval=action.needs_approval(conn, request.filters, request.params, caller),
    )


def create(conn: Connection, request: JobRequest, total: int, wave: WaveOf | None = None) -> JobView:
    """Create the job. It runs soon, unless a second person must approve it. `total`: how many rows match."""
    action, target, caller = request.action, request.action.target, request.caller
    target.check(conn, request.filters, caller.allowed)
    stored = request.stored or action.check(conn, request.filters, request.params, caller)
    needs_approval = wave is None and action.needs_approval(conn, request.filters, request.params, caller)
    job_id = f"job_{secrets.token_hex(12)}"
    conn.run(
        SQL.insert_job,
        job_id=job_id,
        area=target.area.value,
        target=target.name,
        action=action.name,
        filter=msgspec.json.encode(request.filters).decode(),
        params=stored.shown.decode(),
        sealed_params=stored.sealed,
        created_by=caller.actor,
        identities=msgspec.json.encode(caller.identities).decode(),
        person_id=caller.person_id,
        key_id=caller.key_id,
        role=request.role.name,
        scope=target.scope(request.filters, caller.allowed).as_json(),
        now_ms=conn.now_ms,
        state="pending_approval" if needs_approval else "queued",
        rate_per_second=request.rate_per_second,
        total=total if wave is None or wave.items_max is None else min(total, wave.items_max),
        after_id=0 if wave is None else wave.after_id,
        through_id=target.newest_id(conn),
        items_max=None if wave is None else wave.items_max,
        rollout=None if wave is None else wave.rollout,
        wave=None if wave is None else wave.wave,
        approved_by=None if wave is None else wave.approved_by,
    )
    detail = {"action": f"{target.name}.{action.name}", "filter": msgspec.to_builtins(request.filters), "total": total}
    record(conn, action, caller.actor, "job.created", job_id, detail)
    conn.add_commit_event(JobsDue())
    return view(find(conn, job_id))


def find(conn: Connection, job_id: str) -> Row:
    row = conn.one(SQL.job, job_id=job_id) if _JOB_ID.fullmatch(job_id) else None
    if row is None:
        raise NotFound("there is no such job")
    return row


def find_visible(conn: Connection, job_id: str, caller: Operator, role: Role) -> Row:
    """The job, if the caller has the role for everything that the job may touch; else as if it were missing."""
    row = find(conn, job_id)
    if not is_visible(row, caller, role):
        raise NotFound("there is no such job")
    return row


def is_visible(job: Row, caller: Operator, role: Role) -> bool:
    """Whether the caller has the role for every user, site or client that the job is limited to."""
    allowed = open_to(caller, Area(job["area"]), role)
    if allowed is None or allowed.are_all:
        return allowed is not None
    scope = None if job["scope"] is None else msgspec.json.decode(job["scope"], type=list[int | str])
    return scope is not None and all(each in allowed for each in scope)


def open_to(caller: Operator, area: Area, role: Role) -> AllowedIds | None:
    """What the caller's grants open in the area. Of the fleet, people without the role admin, and keys of users, see
    what the lists of devices show them: their own devices, and people those of users whom a grant names."""
    allowed = caller.grants.allowed(area, role)
    if allowed is None or caller.user_id is None:
        return allowed
    if isinstance(caller, ApiKeyCaller) and area is not Area.updates:
        return None
    if isinstance(caller, Person) and area is not Area.updates:
        return allowed
    of_admin = caller.grants.allowed(area, Role.admin)
    if isinstance(caller, Person) and of_admin is not None and of_admin.are_all:
        return allowed
    named = allowed.ids or frozenset() if isinstance(caller, Person) else frozenset()
    return AllowedIds(frozenset([*([caller.user_id] if caller.user_id in allowed else []), *named]))


def show(conn: Connection, actions: JobActions, row: Row) -> JobView:
    action = actions.find(row["target"], row["action"])
    return view(row, None if action is None else action.outcomes(conn, row["id"]))


def list_page(
    conn: Connection, caller: Operator, state: str | None, target: str | None, page: PageRequest
) -> Page[JobView]:
    """A page of the jobs that the caller may see, newest first."""
    found: list[Row] = []
    before, step = page.after or INT64_MAX, page.limit + 1
    while len(found) <= page.limit:
        rows = conn.all(SQL.jobs, before=before, state=state, target=target, limit=step)
        found += [row for row in rows if is_visible(row, caller, Role.viewer)]
        if len(rows) < step:
            break
        before = rows[-1]["id"]
    return page_of(found, page, "id", view)


def items_page(
    conn: Connection, actions: JobActions, job: Row, state: str | None, page: PageRequest
) -> Page[JobItemView]:
    """A page of the results of a job, in the order of the items."""
    bound: dict[str, Any] = {"job": job["id"], "after": page.after, "limit": page.limit + 1}
    if state is None:
        rows = conn.all(SQL.items, **bound)
    else:
        rows = conn.all(SQL.items_in_state if state == "done" else SQL.items_not_done, state=state, **bound)
    action = actions.find(job["target"], job["action"])
    results = [row["result"] for row in rows if row["result"] is not None]
    outcomes = {} if action is None else action.item_outcomes(conn, results)
    return page_of(rows, page, "item", lambda row: _item_view(row, outcomes.get(row["result"])))


def pause(conn: Connection, actions: JobActions, job_id: str, actor: str) -> Row:
    job = _find_open(conn, job_id)
    if job["state"] == "pending_approval":
        raise Conflict("the job waits for approval: deny or abort it")
    if job["state"] != "paused":
        _change(conn, actions, job, "paused", actor, "job.paused", f"paused by {actor}")
    return find(conn, job_id)


def resume(conn: Connection, actions: JobActions, job_id: str, actor: str) -> Row:
    job = _find_open(conn, job_id)
    if job["state"] == "pending_approval":
        raise Conflict("the job waits for approval")
    if job["state"] == "paused":
        _change(conn, actions, job, "queued", actor, "job.resumed", None)
        conn.add_commit_event(JobsDue())
    return find(conn, job_id)


def abort(conn: Connection, actions: JobActions, job_id: str, actor: str) -> Row:
    """End the job. What it has done stays done. Aborting it again changes nothing."""
    if find(conn, job_id)["state"] == "aborted":
        return find(conn, job_id)
    _change(conn, actions, _find_open(conn, job_id), "aborted", actor, "job.aborted", f"aborted by {actor}")
    return find(conn, job_id)


def approve(conn: Connection, actions: JobActions, job_id: str, actor: str, identities: Sequence[str]) -> Row:
    """Let the job run. Nobody approves a job that they created."""
    job = _find_waiting(conn, job_id)
    makers = {job["created_by"], *msgspec.json.decode(job["identities"], type=list[str])}
    if makers & {actor, *identities}:
        raise NotAllowed("you created this job: another person must approve it")
    conn.run(SQL.approve, id=job["id"], actor=actor, now_ms=conn.now_ms)
    _record_change(conn, actions, job, actor, "job.approved", {})
    conn.add_commit_event(JobsDue())
    return find(conn, job_id)


def deny(conn: Connection, actions: JobActions, job_id: str, actor: str, reason: str | None) -> Row:
    job = _find_waiting(conn, job_id)
    if reason is not None and not 1 <= len(reason) <= REASON_CHARACTERS_MAX:
        raise BadInput("reason", f"1 to {REASON_CHARACTERS_MAX} characters")
    _change(
        conn, actions, job, "aborted", actor, "job.denied", f"denied by {actor}" + (f": {reason}" if reason else "")
    )
    return find(conn, job_id)


def end_by_engine(conn: Connection, actions: JobActions, job: Row, state: JobState, reason: str | None) -> None:
    """The engine ends or pauses the job, which it has locked."""
    event = {"done": "job.done", "paused": "job.paused", "failed": "job.failed"}[state]
    _change(conn, actions, job, state, "restante", event, reason)


def counts(conn: Connection) -> dict[str, int]:
    """How many jobs have not ended, by state."""
    return {row["state"]: row["jobs"] for row in conn.all(SQL.counts)}


def delete_old(conn: Connection, keep_seconds: int) -> int:
    """Delete some results of the oldest ended job, then the job; return the number of rows."""
    row = conn.one(SQL.old_jobs, before_ms=conn.now_ms - keep_seconds * 1000)
    if row is None:
        return 0
    deleted = conn.run(SQL.delete_items, job=row["id"], limit=SWEEP_ROWS)
    return deleted or conn.run(SQL.delete_job, job=row["id"])


def record(
    conn: Connection, action: JobAction[Any], actor: str, event: str, job_id: str, detail: dict[str, Any]
) -> None:
    action.target.record(conn, actor, event, {"job_id": job_id, **detail})


def view(row: Row, outcomes: dict[str, int] | None = None) -> JobView:
    return JobView(
        job_id=row["job_id"],
        target=row["target"],
        action=row["action"],
        filter=msgspec.Raw(row["filter"].encode()),
        params=msgspec.Raw(row["params"].encode()),
        state=row["state"],
        reason=row["reason"],
        total=row["total"],
        done=row["done"],
        failed=row["failed"],
        skipped=row["skipped"],
        rate_per_second=row["rate_per_second"],
        created_by=row["created_by"],
        created_at=iso_precise(row["created_at"]),
        approved_by=row["approved_by"],
        started_at=iso_precise(row["started_at"]),
        finished_at=iso_precise(row["finished_at"]),
        outcomes=outcomes,
    )


def _find_open(conn: Connection, job_id: str) -> Row:
    """Lock the job; raise Conflict if it has ended."""
    conn.lock("job", find(conn, job_id)["id"])
    job = find(conn, job_id)
    if job["state"] in ENDED:
        raise Conflict(f"the job is {job['state']}")
    return job


def _find_waiting(conn: Connection, job_id: str) -> Row:
    job = _find_open(conn, job_id)
    if job["state"] != "pending_approval":
        raise Conflict(f"the job is {job['state']}: it does not wait for approval")
    return job


def set_state(
    conn: Connection, actions: JobActions, job_id: str, state: JobState, actor: str, reason: str | None
) -> None:
    """Change the state of the job of a rollout, unless it has ended."""
    conn.lock("job", find(conn, job_id)["id"])
    job = find(conn, job_id)
    if job["state"] not in ENDED and job["state"] != state:
        _change(conn, actions, job, state, actor, f"job.{_EVENTS[state]}", reason)
        conn.add_commit_event(JobsDue())


_EVENTS: dict[JobState, str] = {"paused": "paused", "queued": "resumed", "aborted": "aborted"}


def _change(
    conn: Connection, actions: JobActions, job: Row, state: JobState, actor: str, event: str, reason: str | None
) -> None:
    finished_at = conn.now_ms if state in ENDED else None
    conn.run(SQL.set_state, id=job["id"], state=state, reason=reason, finished_at=finished_at)
    progress = {name: job[name] for name in ITEM_STATES}
    _record_change(conn, actions, job, actor, event, progress if reason is None else {**progress, "reason": reason})


def _record_change(
    conn: Connection, actions: JobActions, job: Row, actor: str, event: str, detail: dict[str, Any]
) -> None:
    action = actions.find(job["target"], job["action"])
    if action is not None:
        record(conn, action, actor, event, job["job_id"], detail)


def _item_view(row: Row, outcome: str | None) -> JobItemView:
    return JobItemView(
        item=row["item"],
        state=row["state"],
        ref=row["ref"],
        result=row["result"],
        error=row["error"],
        at=iso_precise(row["at"]),
        outcome=outcome,
    )
