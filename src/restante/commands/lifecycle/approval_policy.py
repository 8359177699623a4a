"""The approval policy: which commands a second person must approve. It is stored in the database, for every process.

The settings `commands_needing_approval` and `approval_from_miners` are its first value: the first server that starts
with them stores them, once. From then on only administrators change the policy, and the audit trail records it.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.commands.audit.audit_trail import ROOT_CHAIN, AuditEntry, AuditTrail
from restante.commands.lifecycle import makers
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.lifecycle.command_types import standard_type
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.queries import Query, queries_beside

SQL = queries_beside(__file__)

IMPORTED = "restante"


class ApprovalPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`command_types` need approval whatever their number of miners. From `miners_from` miners on every command does,
    counting all commands of its maker and type within `window_seconds`; null: never."""

    command_types: Annotated[list[str], Meta(max_length=100)]
    miners_from: Annotated[int, Meta(ge=1, le=1_000_000)] | None
    window_seconds: Annotated[int, Meta(ge=1, le=makers.WINDOW_SECONDS_MAX)]


class StoredPolicy(msgspec.Struct, frozen=True):
    """`changed_at` and `changed_by` are null while the settings of the process count."""

    command_types: list[str]
    miners_from: int | None
    window_seconds: int
    changed_at: Timestamp | None
    changed_by: str | None


def rules(conn: Connection, initial: ApprovalRules) -> ApprovalRules:
    """The policy; `initial` while none is stored."""
    row = conn.one(SQL.policy)
    return initial if row is None else _rules(row)


def show(conn: Connection, initial: ApprovalRules) -> StoredPolicy:
    row = conn.one(SQL.policy)
    policy = _policy(initial if row is None else _rules(row))
    return StoredPolicy(
        policy.command_types,
        policy.miners_from,
        policy.window_seconds,
        None if row is None else iso_precise(row["changed_at"]),
        None if row is None else row["changed_by"],
    )


def store_initial(conn: Connection, trail: AuditTrail, initial: ApprovalRules) -> None:
    """Store the first value, if the settings have one and no policy is stored yet."""
    if initial.is_ever_needed and conn.one(SQL.policy) is None and _put(conn, _policy(initial), IMPORTED, SQL.insert):
        _record(conn, trail, "approval.policy_imported", IMPORTED, None, _policy(initial))


def change(
    conn: Connection, trail: AuditTrail, initial: ApprovalRules, policy: ApprovalPolicy, actor: str
) -> StoredPolicy:
    """Replace the policy. It counts for commands that are created from now on, on every node."""
    types = sorted({standard_type(name, "command_types") for name in policy.command_types})
    policy = msgspec.structs.replace(policy, command_types=types)
    conn.lock("approval policy", 0)
    before = _policy(rules(conn, initial))
    _put(conn, policy, actor, SQL.put)
    _record(conn, trail, "approval.policy_changed", actor, before, policy)
    return show(conn, initial)


def _put(conn: Connection, policy: ApprovalPolicy, actor: str, query: Query) -> int:
    return conn.run(
        query,
        command_types=msgspec.json.encode(policy.command_types).decode(),
        miners_from=policy.miners_from,
        window_seconds=policy.window_seconds,
        now_ms=conn.now_ms,
        actor=actor,
    )


def _record(
    conn: Connection, trail: AuditTrail, event: str, actor: str, before: ApprovalPolicy | None, after: ApprovalPolicy
) -> None:
    detail = {"before": None if before is None else msgspec.structs.asdict(before)}
    detail["after"] = msgspec.structs.asdict(after)
    trail.record(conn, AuditEntry(ROOT_CHAIN, actor, event, None, None, None, detail))


def _rules(row: Row) -> ApprovalRules:
    types = frozenset(msgspec.json.decode(row["command_types"], type=list[str]))
    return ApprovalRules(types, row["miners_from"], row["window_seconds"])


def _policy(rules: ApprovalRules) -> ApprovalPolicy:
    return ApprovalPolicy(sorted(rules.command_types), rules.miners_from, rules.window_seconds)
