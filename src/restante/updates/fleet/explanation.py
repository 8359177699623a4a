"""Explains why a device has not received its signals or its config, in one sentence and in fields.

The first reason that applies: it is revoked; it never polled; it is overdue; a signal cannot be published, or is not
published yet; it has not fetched its signals; its install config failed, or is not fetched; a certificate's key is not
wrapped for it; it has not reported. Otherwise it waits for nothing.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.updates.fleet.delivery_state import Delivery, DeviceFacts, delivery_of
from restante.updates.pki.crypto.sealing import PENDING_WRAP

SQL = queries_beside(__file__)

WaitingFor = Literal[
    "revoked",
    "first_poll",
    "poll_overdue",
    "undeliverable_signal",
    "dispatcher",
    "poll",
    "config_failed",
    "config_fetch",
    "certificate_wrap",
    "report",
    "nothing",
]


class DeviceExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """`until`: when the wait should end, if known. `failure`: the reason of a failure, as the server or the device
    recorded it. All times are UTC."""

    device_id: int
    status: Literal["active", "revoked"]
    waiting_for: WaitingFor
    sentence: str
    until: Timestamp | None
    failure: str | None
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class _Reason:
    waiting_for: WaitingFor
    sentence: str
    until_ms: int | None = None
    failure: str | None = None


def explain(conn: Connection, device_id: int, facts: DeviceFacts) -> DeviceExplanation:
    reason = _reason(conn, device_id, facts)
    return DeviceExplanation(
        device_id=device_id,
        status="active" if facts.row["revoked_at"] is None else "revoked",
        waiting_for=reason.waiting_for,
        sentence=reason.sentence,
        until=iso_precise(reason.until_ms),
        failure=reason.failure,
        delivery=delivery_of(conn, facts),
    )


def _reason(conn: Connection, device_id: int, facts: DeviceFacts) -> _Reason:
    return (
        _absent(conn, facts)
        or _unpublished(conn, device_id, facts)
        or _unreceived(facts)
        or _config(facts)
        or _wraps(conn, device_id)
        or _complete(facts)
    )


def _absent(conn: Connection, facts: DeviceFacts) -> _Reason | None:
    """The device does not poll: it is revoked, it never polled, or it is overdue."""
    if facts.row["revoked_at"] is not None:
        revoked_at = iso_precise(facts.row["revoked_at"])
        return _Reason("revoked", f"It was revoked at {revoked_at}: it gets nothing any more.")
    waiting = _waiting(facts)
    if facts.seen_ms is None:
        created_at = iso_precise(facts.row["created_at"])
        return _Reason("first_poll", f"It was registered at {created_at} and has never polled{waiting}.")
    if facts.is_overdue(conn.now_ms) and facts.overdue_ms is not None:
        sentence = (
            f"It has not polled since {iso_precise(facts.seen_ms)} and is overdue since "
            f"{iso_precise(facts.overdue_ms)}{waiting}."
        )
        return _Reason("poll_overdue", sentence)
    return None


def _waiting(facts: DeviceFacts) -> str:
    count = facts.lag_signals + facts.queued
    return f"; {count} of its signals wait" if count > 1 else "; one of its signals waits" if count else ""


def _unpublished(conn: Connection, device_id: int, facts: DeviceFacts) -> _Reason | None:
    if facts.undeliverable:
        row = conn.one(SQL.newest_failed, device_id=device_id)
        failure = None if row is None else row["failure_reason"]
        sentence = (
            f"{_signals(facts.undeliverable)} that could not be published, the last because of: {failure}. "
            "An operator can retry the rows of the outbox."
        )
        return _Reason("undeliverable_signal", sentence, failure=failure)
    if facts.queued:
        row = conn.one(SQL.oldest_pending, device_id=device_id)
        since = None if row is None else iso_precise(row["created_at"])
        retry = None if row is None else row["next_attempt_at"]
        failure = None if row is None else row["failure_reason"]
        again = f" The last attempt failed: {failure}." if failure else ""
        sentence = f"{_signals(facts.queued)} to be published by the dispatcher, the first since {since}.{again}"
        return _Reason("dispatcher", sentence, retry, failure)
    return None


def _unreceived(facts: DeviceFacts) -> _Reason | None:
    if not facts.lag_signals or facts.oldest_unreceived_ms is None:
        return None
    seen = "" if facts.seen_ms is None else f" It polled last at {iso_precise(facts.seen_ms)}."
    sentence = (
        f"{_signals(facts.lag_signals)} that it has not confirmed, the first published at "
        f"{iso_precise(facts.oldest_unreceived_ms)}; its next polls fetch and confirm them.{seen}"
    )
    return _Reason("poll", sentence, facts.overdue_ms)


def _config(facts: DeviceFacts) -> _Reason | None:
    row = facts.row
    version, state = row["version"], row["state"]
    if state == "failed":
        sentence = f"It reported at {iso_precise(row['failed_at'])} that version {version} failed: {row['failure']}."
        return _Reason("config_failed", sentence, failure=row["failure"])
    if state == "behind":
        has = f"it has version {row['fetched_version']}" if row["fetched_version"] else "it has fetched none"
        sentence = (
            f"It has confirmed all its signals, but it has not fetched version {version} of its install config, which "
            f"is of {iso_precise(row['config_updated_at'])}; {has}."
        )
        return _Reason("config_fetch", sentence)
    return None


def _wraps(conn: Connection, device_id: int) -> _Reason | None:
    row = conn.one(SQL.pending_wrap, device_id=device_id, pending=PENDING_WRAP)
    if row is None:
        return None
    what = "is not issued yet" if row["status"] != "issued" else "has a key that is not wrapped for it yet"
    return _Reason("certificate_wrap", f"Its certificate {row['id']} ({row['domain_name']}) {what}.")


def _complete(facts: DeviceFacts) -> _Reason:
    row = facts.row
    seen = "never" if facts.seen_ms is None else f"at {iso_precise(facts.seen_ms)}"
    if row["state"] == "fetched":
        sentence = (
            f"It has everything: it fetched version {row['version']} at {iso_precise(row['fetched_at'])} and has not "
            "reported whether it applied it."
        )
        return _Reason("report", sentence)
    config = f", and applied version {row['version']} of its install config" if row["state"] == "applied" else ""
    return _Reason("nothing", f"It has everything: it confirmed all its signals{config}. It polled last {seen}.")


def _signals(count: int) -> str:
    return "There is 1 signal" if count == 1 else f"There are {count} signals"
