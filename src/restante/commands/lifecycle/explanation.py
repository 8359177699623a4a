"""Explains what a command is waiting for, in one sentence and in fields.

The first reason that applies: it has ended; approval; a lease; its back-off; another command of its miner; its type's
rate window; a collector that could claim it. Otherwise one of the next polls gets it. The site is settled first, so the
explanation never shows an expired lease.
"""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from restante.commands.acks.acks import OUTCOME_UNKNOWN, OUTCOME_UNKNOWN_MESSAGE
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.dispatch import rate_limits, settlement
from restante.commands.dispatch.claims import ClaimOptions
from restante.commands.dispatch.rate_limits import RateRules
from restante.commands.errors import CommandNotFound
from restante.core.commands.command_states import LEASED, TERMINAL, State
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# A poll waits for at most half a minute: a collector that was not seen for this long is offline.
OFFLINE_AFTER_SECONDS = 120
AHEAD_MAX = 1000

WaitingFor = Literal[
    "approval", "lease", "back_off", "miner", "rate_window", "no_collector", "collector", "poll", "expired", "finished"
]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`until`: when the wait ends at the latest, if known. `ahead`: how many ready commands of the site come first, up
    to a thousand. All times are UTC."""

    command_id: str
    status: str
    waiting_for: WaitingFor
    sentence: str
    until: Timestamp | None
    expires_at: Timestamp
    approval_needed: bool = False
    lease_owner: int | None = None
    lease_owner_name: str | None = None
    lease_until: Timestamp | None = None
    attempt: int
    retry_count: int
    max_retries: int
    next_attempt_at: Timestamp | None = None
    miner_command_id: str | None = None
    rate_limit: int | None = None
    rate_window_sec: int | None = None
    rate_window_frees_at: Timestamp | None = None
    collector_last_seen_at: Timestamp | None = None
    ahead: int | None = None
    result_code: str | None = None
    superseded_by: str | None = None


@dataclass(frozen=True, slots=True)
class _Reason:
    waiting_for: WaitingFor
    sentence: str
    until_ms: int | None
    fields: dict[str, Any]


def explain(conn: Connection, trail: AuditTrail, options: ClaimOptions, command_id: str) -> Explanation:
    settlement.apply_settlement(conn, trail, _row(conn, command_id)["site_id"])
    row = _row(conn, command_id)
    reason = _reason(conn, options, row)
    return Explanation(
        command_id=command_id,
        status=row["status"],
        waiting_for=reason.waiting_for,
        sentence=reason.sentence,
        until=iso_precise(reason.until_ms),
        expires_at=iso_precise(row["expires_at"]),
        attempt=row["attempt"],
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        **reason.fields,
    )


def _reason(conn: Connection, options: ClaimOptions, row: Row) -> _Reason:
    status = State(row["status"])
    if status in TERMINAL:
        return _ended(row)
    if status is State.pending_approval:
        return _approval(row)
    if status in LEASED:
        return _lease(conn, row)
    if row["next_attempt_at"] is not None and not row["is_held"]:
        return _back_off(row)
    return _busy_miner(conn, options, row) or _rate_window(conn, options.rates, row) or _collector(conn, row)


def _ended(row: Row) -> _Reason:
    fields = {"result_code": row["result_code"], "superseded_by": row["superseded_by"]}
    if row["status"] == State.expired:
        sentence = f"It expired at {iso_precise(row['expires_at'])}: it is not dispatched any more."
        return _Reason("expired", sentence, None, fields)
    ended = f"It waits for nothing: it has ended {row['status']} at {iso_precise(row['finished_at'])}"
    replaced = f", replaced by {row['superseded_by']}" if row["superseded_by"] else ""
    lost = f": {OUTCOME_UNKNOWN_MESSAGE}" if row["result_code"] == OUTCOME_UNKNOWN else ""
    return _Reason("finished", f"{ended}{replaced}{lost}.", None, fields)


def _approval(row: Row) -> _Reason:
    sentence = (
        f"It waits for approval by an operator other than {row['created_by']}, "
        f"and expires at {iso_precise(row['expires_at'])} without it."
    )
    return _Reason("approval", sentence, None, {"approval_needed": True})


def _lease(conn: Connection, row: Row) -> _Reason:
    owner = conn.one(SQL.collector, device_id=row["lease_owner"])
    name = owner["device_name"] if owner else None
    sentence = (
        f"Collector {row['lease_owner']} ({name}) holds it, attempt {row['attempt']}, "
        f"and has until {iso_precise(row['lease_until'])} to acknowledge it."
    )
    fields = {
        "lease_owner": row["lease_owner"],
        "lease_owner_name": name,
        "lease_until": iso_precise(row["lease_until"]),
    }
    return _Reason("lease", sentence, row["lease_until"], fields)


def _back_off(row: Row) -> _Reason:
    at = iso_precise(row["next_attempt_at"])
    sentence = (
        f"It waits for its next attempt, at {at}: attempt {row['attempt']} did not carry it out "
        f"({row['retry_count']} of {row['max_retries']} retries used)."
    )
    return _Reason("back_off", sentence, row["next_attempt_at"], {"next_attempt_at": at})


def _busy_miner(conn: Connection, options: ClaimOptions, row: Row) -> _Reason | None:
    other = conn.one(SQL.leased_for_miner, miner_id=row["miner_id"])
    if other is None or not options.is_one_lease_per_miner:
        return None
    sentence = (
        f"Another command of this miner is in progress: {other['command_id']}. This one follows when that is "
        f"acknowledged, or when its lease ends at {iso_precise(other['lease_until'])}."
    )
    return _Reason("miner", sentence, other["lease_until"], {"miner_command_id": other["command_id"]})


def _rate_window(conn: Connection, rules: RateRules, row: Row) -> _Reason | None:
    allowance = rate_limits.allowance(conn, rules, row["site_id"], row["command_type"])
    if allowance.left > 0 or allowance.frees_at_ms is None:
        return None
    rule = rules.of(row["command_type"])
    frees_at = iso_precise(allowance.frees_at_ms)
    sentence = (
        f"It waits for the rate window: {rule.limit} {row['command_type']} were dispatched at site {row['site_id']} "
        f"within {rule.window_seconds} seconds, and the next can be at {frees_at}."
    )
    fields = {
        "rate_limit": rule.limit,
        "rate_window_sec": rule.window_seconds,
        "rate_window_frees_at": frees_at,
    }
    return _Reason("rate_window", sentence, allowance.frees_at_ms, fields)


def _collector(conn: Connection, row: Row) -> _Reason:
    found = conn.one(SQL.collectors_for, site_id=row["site_id"], zone_id=row["zone_id"])
    if found is None or not found["collectors"]:
        sentence = f"Site {row['site_id']} has no collector that serves zone {row['zone_id']}."
        return _Reason("no_collector", sentence, None, {})
    seen_ms = found["last_seen_at"]
    fields = {"collector_last_seen_at": iso_precise(seen_ms), "ahead": _ahead(conn, row)}
    if seen_ms is None:
        return _Reason("collector", "It is ready, but no collector of the site has ever called.", None, fields)
    if conn.now_ms - seen_ms > OFFLINE_AFTER_SECONDS * 1000:
        sentence = f"It is ready, but no collector of the site has been seen since {iso_precise(seen_ms)}."
        return _Reason("collector", sentence, None, fields)
    sentence = f"It is ready: it goes out with one of the next polls, {fields['ahead']} before it."
    return _Reason("poll", sentence, None, fields)


def _ahead(conn: Connection, row: Row) -> int:
    counted = conn.one(SQL.count_ahead, site_id=row["site_id"], rank=row["rank"], id=row["id"], count_max=AHEAD_MAX)
    return int(counted["count"]) if counted else 0


def _row(conn: Connection, command_id: str) -> Row:
    row = conn.one(SQL.command, command_id=command_id)
    if row is None:
        raise CommandNotFound()
    return row
