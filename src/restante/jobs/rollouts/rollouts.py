"""Rollouts: creating, showing, pausing, resuming, advancing, aborting, approving them, and rolling them back.

    pending_approval ─approve─▶ running ─ last wave succeeded ─▶ done
          │ deny               ▲ │  │
          ▼              resume│ │pause, by an operator or by a threshold
       aborted ◀── abort ── paused   │
                                └────┴── roll back ─▶ rolling_back ─▶ rolled_back

Each wave is a job (`jobs.py`), so that each item is acted on once, whenever a process is killed. `controller.py`
decides when the next wave begins. This module depends on no protocol and not on HTTP.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from restante.core.errors import BadInput, Conflict, NotAllowed, NotFound
from restante.core.rollout_rules import RolloutRules
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.callers import Operator
from restante.identity.grants import ALL_IDS, Role
from restante.jobs import creators, jobs
from restante.jobs.actions import (
    JobAction,
    JobActions,
    JobCaller,
    RolloutAction,
    StoredParams,
    WaveCounts,
)
from restante.jobs.jobs import ENDED, JobRequest, JobsDue, WaveOf
from restante.jobs.rollouts import waves
from restante.jobs.rollouts.rollout_items import RolloutFilter
from restante.jobs.rollouts.waves import Wave

SQL = queries_beside(__file__)

NAME_CHARACTERS_MAX = 200
_ROLLOUT_ID = re.compile("rollout_[0-9a-f]{24}", re.ASCII)

RolloutState = Literal["pending_approval", "running", "paused", "done", "aborted", "rolling_back", "rolled_back"]
STATES: tuple[str, ...] = get_args(RolloutState)
FINAL = frozenset({"done", "aborted", "rolled_back"})


class RolloutChange(msgspec.Struct, frozen=True, kw_only=True):
    """None in a field: it stays as it is."""

    name: str | None = None
    success_percent: int | None = None
    error_percent: int | None = None
    min_wave_seconds: int | None = None
    max_wave_seconds: int | None = None


CHANGED_FIELDS = RolloutChange.__struct_fields__


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequest:
    """A job in waves. `is_boosting`: devices poll faster while a wave waits for their reports."""

    job: JobRequest
    name: str
    waves: list[Wave]
    rules: RolloutRules
    is_boosting: bool


def create(conn: Connection, request: RolloutRequest, total: int) -> Row:
    """Create the rollout. Its first wave begins soon, unless a second person must approve it."""
    job = request.job
    action, caller = job.action, job.caller
    check(conn, request)
    stored = action.check(conn, job.filters, job.params, caller)
    needs_approval = action.needs_approval(conn, job.filters, job.params, caller)
    rollout_id = f"rollout_{secrets.token_hex(12)}"
    rules = request.rules
    conn.run(
        SQL.insert_rollout,
        rollout_id=rollout_id,
        name=request.name,
        area=action.target.area.value,
        target=action.target.name,
        action=action.name,
        filter=msgspec.json.encode(job.filters).decode(),
        params=stored.shown.decode(),
        sealed_params=stored.sealed,
        created_by=caller.actor,
        identities=msgspec.json.encode(caller.identities).decode(),
        person_id=caller.person_id,
        key_id=caller.key_id,
        role=job.role.name,
        scope=action.target.scope(job.filters, caller.allowed).as_json(),
        now_ms=conn.now_ms,
        state="pending_approval" if needs_approval else "running",
        rate_per_second=job.rate_per_second,
        total=total,
        waves=msgspec.json.encode(request.waves).decode(),
        success_percent=rules.success_percent,
        error_percent=rules.error_percent,
        min_wave_seconds=rules.min_wave_seconds,
        max_wave_seconds=rules.max_wave_seconds,
        is_boosting=int(request.is_boosting and caller.allowed.are_all),
    )
    detail = {"action": f"{action.target.name}.{action.name}", "total": total, "waves": len(request.waves)}
    _record(conn, action, caller.actor, "rollout.created", rollout_id, detail)
    conn.add_commit_event(JobsDue())
    return find(conn, rollout_id)


def check(conn: Connection, request: RolloutRequest) -> None:
    """Check the waves and their filters."""
    job = request.job
    waves.check_waves(request.waves)
    job.action.target.check(conn, job.filters, job.caller.allowed)
    for number, wave in enumerate(request.waves):
        field = f"waves[{number}]" if wave.group is not None else f"waves[{number}].filter"
        own = waves.filter_of(wave, job.filters, field)
        try:
            job.action.target.check(conn, own, job.caller.allowed)
        except BadInput as error:
            raise BadInput(f"{field}.{error.field.removeprefix('filter.')}", error.expected) from None


def find(conn: Connection, rollout_id: str) -> Row:
    row = conn.one(SQL.rollout, rollout_id=rollout_id) if _ROLLOUT_ID.fullmatch(rollout_id) else None
    if row is None:
        raise NotFound("there is no such rollout")
    return row


def find_visible(conn: Connection, rollout_id: str, caller: Operator, role: Role) -> Row:
    """The rollout, if the caller has the role for everything that it may touch; else as if it were missing."""
    row = find(conn, rollout_id)
    if not jobs.is_visible(row, caller, role):
        raise NotFound("there is no such rollout")
    return row


def change(conn: Connection, actions: JobActions, rollout_id: str, actor: str, changed: RolloutChange) -> None:
    """Change the name or the thresholds. They count at the next look at the rollout."""
    rollout = lock(conn, rollout_id)
    _require(rollout, "pending_approval", "running", "paused")
    fields = {name: value for name, value in msgspec.structs.asdict(changed).items() if value is not None}
    conn.run(SQL.change, id=rollout["id"], **{name: rollout[name] for name in CHANGED_FIELDS} | fields)
    _record_change(conn, actions, rollout, actor, "rollout.changed", fields)


def pause(conn: Connection, actions: JobActions, rollout_id: str, actor: str, reason: str | None = None) -> None:
    """Stop the current wave and begin no other. Pausing again changes nothing."""
    rollout = lock(conn, rollout_id)
    _require(rollout, "running", "paused")
    if rollout["state"] == "running":
        _set_state(conn, actions, rollout, "paused", actor, "rollout.paused", reason or f"paused by {actor}")
        _change_job(conn, actions, rollout, "paused", actor, f"its rollout was paused by {actor}")


def resume(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
    """Go on with the current wave. Failures that are known by now do not pause the rollout again."""
    rollout = lock(conn, rollout_id)
    _require(rollout, "running", "paused")
    if rollout["state"] == "paused":
        failures = counts_of_wave(conn, actions, rollout, rollout["wave"]).failed if rollout["wave"] else 0
        conn.run(SQL.accept_failures, id=rollout["id"], failures=failures, now_ms=conn.now_ms)
        _set_state(conn, actions, rollout, "running", actor, "rollout.resumed", None, {"accepted_failures": failures})
        _change_job(conn, actions, rollout, "queued", actor, None)


def advance(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
    """Begin the next wave now, whatever the current one has reported."""
    rollout = lock(conn, rollout_id)
    _require(rollout, "running", "paused")
    job = conn.one(SQL.job_of_wave, rollout=rollout["id"], wave=rollout["wave"])
    if job is not None and job["state"] not in ENDED:
        raise Conflict("the current wave has not reached all its items yet")
    if rollout["state"] == "paused":
        _set_state(conn, actions, rollout, "running", actor, "rollout.resumed", None)
    _record_change(conn, actions, rollout, actor, "rollout.advanced", {"wave": rollout["wave"]})
    next_wave(conn, actions, find(conn, rollout_id))


def abort(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
    """End the rollout. What it has changed stays changed. Aborting it again changes nothing."""
    rollout = lock(conn, rollout_id)
    if rollout["state"] == "aborted":
        return
    _require(rollout, "pending_approval", "running", "paused")
    _set_state(conn, actions, rollout, "aborted", actor, "rollout.aborted", f"aborted by {actor}")
    _change_job(conn, actions, rollout, "aborted", actor, f"its rollout was aborted by {actor}")


def approve(conn: Connection, actions: JobActions, rollout_id: str, actor: str, identities: Sequence[str]) -> None:
    """Let the rollout begin. Nobody approves a rollout that they created."""
    rollout = lock(conn, rollout_id)
    _require(rollout, "pending_approval")
    makers = {rollout["created_by"], *msgspec.json.decode(rollout["identities"], type=list[str])}
    if makers & {actor, *identities}:
        raise NotAllowed("you created this rollout: another person must approve it")
    conn.run(SQL.approve, id=rollout["id"], actor=actor, now_ms=conn.now_ms)
    _record_change(conn, actions, rollout, actor, "rollout.approved", {})
    conn.add_commit_event(JobsDue())


def deny(conn: Connection, actions: JobActions, rollout_id: str, actor: str) -> None:
    rollout = lock(conn, rollout_id)
    _require(rollout, "pending_approval")
    _set_state(conn, actions, rollout, "aborted", actor, "rollout.denied", f"denied by {actor}")


def roll_back(conn: Connection, actions: JobActions, rollout_id: str, caller: JobCaller, role: Role) -> None:
    """Undo the rollout for every item that a wave has acted on, with a job under the rights of the caller."""
    rollout = lock(conn, rollout_id)
    _require(rollout, "running", "paused", "done", "aborted")
    action = action_of(actions, rollout)
    undo = None if action.roll_back is None else actions.find(*action.roll_back)
    if undo is None:
        raise Conflict(f"{action.name} cannot be rolled back")
    _change_job(conn, actions, rollout, "aborted", caller.actor, f"its rollout was rolled back by {caller.actor}")
    request = JobRequest(
        action=undo,
        filters=RolloutFilter(rollout["id"]),
        params=msgspec.convert(action.undo_params(_params(action, rollout)), undo.params_type),
        caller=caller,
        role=role,
        rate_per_second=rollout["rate_per_second"],
    )
    total = undo.target.count(conn, request.filters, ALL_IDS)
    made = jobs.create(conn, request, total, WaveOf(rollout=rollout["id"], wave=0))
    conn.run(SQL.set_roll_back_job, id=rollout["id"], job=jobs.find(conn, made.job_id)["id"])
    reason = f"rolled back by {caller.actor}"
    _set_state(conn, actions, rollout, "rolling_back", caller.actor, "rollout.rolled_back", reason)


def next_wave(conn: Connection, actions: JobActions, rollout: Row) -> None:
    """Begin the next wave that has items, or finish the rollout. The caller has locked the rollout."""
    planned = waves_of(rollout)
    number = rollout["wave"] + 1
    made = conn.all(SQL.jobs, rollout=rollout["id"])
    taken = sum(job["done"] + job["failed"] + job["skipped"] for job in made if job["wave"])
    while number <= len(planned):
        wave = planned[number - 1]
        most = waves.items_max(wave, rollout["total"], taken)
        if most is None or most > 0:
            _begin(conn, actions, rollout, number, wave, most, made)
            return
        number += 1
    _set_state(conn, actions, rollout, "done", "restante", "rollout.done", None)


def end_roll_back(conn: Connection, actions: JobActions, rollout: Row) -> None:
    _set_state(conn, actions, rollout, "rolled_back", "restante", "rollout.undone", rollout["reason"])


def action_of(actions: JobActions, rollout: Row) -> RolloutAction[Any]:
    action = actions.find(rollout["target"], rollout["action"])
    if not isinstance(action, RolloutAction):
        raise Conflict(f"this server has no rollouts of {rollout['target']}.{rollout['action']}")
    return action


def counts_of_wave(conn: Connection, actions: JobActions, rollout: Row, wave: int) -> WaveCounts:
    """What the items of a wave have reported. An item that was refused the change counts as failed."""
    job = conn.one(SQL.job_of_wave, rollout=rollout["id"], wave=wave)
    return WaveCounts(0, 0, 0) if job is None else counts_of_job(conn, actions, rollout, job)


def counts_of_job(conn: Connection, actions: JobActions, rollout: Row, job: Row) -> WaveCounts:
    counted = action_of(actions, rollout).wave_counts(conn, job["id"])
    return counted._replace(failed=counted.failed + job["failed"])


def _params(action: JobAction[Any], rollout: Row) -> Any:
    return msgspec.json.decode(rollout["params"], type=action.params_type)


def waves_of(rollout: Row) -> list[Wave]:
    return msgspec.json.decode(rollout["waves"], type=list[Wave])


def rules_of(rollout: Row) -> RolloutRules:
    return RolloutRules(
        rollout["success_percent"], rollout["error_percent"], rollout["min_wave_seconds"], rollout["max_wave_seconds"]
    )


def open_counts(conn: Connection) -> dict[str, int]:
    """How many rollouts have not ended, by state."""
    return {row["state"]: row["rollouts"] for row in conn.all(SQL.open_counts)}


def delete_old(conn: Connection, keep_seconds: int) -> int:
    """Delete a rollout that ended longer ago; its jobs are deleted like others then."""
    row = conn.one(SQL.old_rollout, before_ms=conn.now_ms - keep_seconds * 1000)
    if row is None:
        return 0
    conn.run(SQL.release_jobs, id=row["id"])
    return conn.run(SQL.delete_rollout, id=row["id"])


def lock(conn: Connection, rollout_id: str) -> Row:
    conn.lock("rollout", find(conn, rollout_id)["id"])
    return find(conn, rollout_id)


def _begin(
    conn: Connection,
    actions: JobActions,
    rollout: Row,
    number: int,
    wave: Wave,
    most: int | None,
    made: Sequence[Row],
) -> None:
    action = action_of(actions, rollout)
    filters = msgspec.json.decode(rollout["filter"], type=action.target.filter_type)
    allowed = creators.allowed_now(conn, rollout)
    if allowed is None:
        pause(conn, actions, rollout["rollout_id"], "restante", creators.NO_RIGHTS)
        return
    # Waves without a filter of their own go on where the one before stopped.
    planned = waves_of(rollout)
    before = [job["after_id"] for job in made if job["wave"] and not planned[job["wave"] - 1].own_filter]
    request = JobRequest(
        action=action,
        filters=waves.filter_of(wave, filters, f"waves[{number - 1}]"),
        params=None,
        caller=JobCaller(
            rollout["created_by"],
            tuple(msgspec.json.decode(rollout["identities"], type=list[str])),
            allowed,
            rollout["person_id"],
            rollout["key_id"],
        ),
        role=Role[rollout["role"]],
        rate_per_second=rollout["rate_per_second"],
        stored=StoredParams(rollout["params"].encode(), rollout["sealed_params"]),
    )
    total = (
        rollout["total"]
        if most is None and not wave.own_filter
        else action.target.count(conn, request.filters, allowed)
    )
    if most is None and not wave.own_filter:
        total -= sum(job["done"] + job["failed"] + job["skipped"] for job in made if job["wave"])
    after_id = 0 if wave.own_filter else max(before, default=0)
    place = WaveOf(
        rollout=rollout["id"], wave=number, after_id=after_id, items_max=most, approved_by=rollout["approved_by"]
    )
    jobs.create(conn, request, max(0, total), place)
    conn.run(SQL.set_wave, id=rollout["id"], wave=number, now_ms=conn.now_ms)
    _record_change(conn, actions, rollout, "restante", "rollout.wave_started", {"wave": number})


def _require(rollout: Row, *states: str) -> None:
    if rollout["state"] not in states:
        raise Conflict(f"the rollout is {rollout['state'].replace('_', ' ')}")


def _set_state(
    conn: Connection,
    actions: JobActions,
    rollout: Row,
    state: RolloutState,
    actor: str,
    event: str,
    reason: str | None,
    detail: dict[str, Any] | None = None,
) -> None:
    finished_at = conn.now_ms if state in FINAL else None
    conn.run(SQL.set_state, id=rollout["id"], state=state, reason=reason, finished_at=finished_at, now_ms=conn.now_ms)
    _record_change(conn, actions, rollout, actor, event, {"wave": rollout["wave"], "reason": reason, **(detail or {})})
    conn.add_commit_event(JobsDue())


def _change_job(
    conn: Connection,
    actions: JobActions,
    rollout: Row,
    state: Literal["paused", "queued", "aborted"],
    actor: str,
    reason: str | None,
) -> None:
    job = conn.one(SQL.job_of_wave, rollout=rollout["id"], wave=rollout["wave"]) if rollout["wave"] else None
    if job is not None:
        jobs.set_state(conn, actions, job["job_id"], state, actor, reason)


def _record_change(
    conn: Connection, actions: JobActions, rollout: Row, actor: str, event: str, detail: dict[str, Any]
) -> None:
    _record(conn, action_of(actions, rollout), actor, event, rollout["rollout_id"], detail)


def _record(
    conn: Connection, action: JobAction[Any], actor: str, event: str, rollout_id: str, detail: dict[str, Any]
) -> None:
    action.target.record(conn, actor, event, {"rollout_id": rollout_id, **detail})
