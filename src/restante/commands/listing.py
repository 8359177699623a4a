"""Commands as operators see them: lists with filters, newest first, and one with its whole history.

What is shown of a lease is whose it is and until when; its nonce is between the server and the collector.
"""

from dataclasses import dataclass

import msgspec

from restante.commands import audit_listing
from restante.commands.audit_listing import AuditView
from restante.commands.wire import CommandNotFound, iso, iso_or_none
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.web.ask import INT64_MAX
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)

_TIMES = (
    *("approved_at", "lease_until", "dispatched_at", "next_attempt_at", "acked_at", "executed_at", "finished_at"),
)
_JSON = ("params", "before_snapshot", "after_snapshot")


class CommandView(msgspec.Struct, frozen=True, kw_only=True):
    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    command_type: str
    params: msgspec.Raw
    priority: int
    status: str
    created_at: str
    created_by: str
    expires_at: str
    dedupe_key: str | None
    rule_id: int | None
    approved_by: str | None
    approved_at: str | None
    lease_owner: int | None
    lease_until: str | None
    dispatched_at: str | None
    attempt: int
    retry_count: int
    max_retries: int
    next_attempt_at: str | None
    acked_at: str | None
    executed_at: str | None
    result_code: str | None
    result_message: str | None
    before_snapshot: msgspec.Raw | None
    after_snapshot: msgspec.Raw | None
    superseded_by: str | None
    finished_at: str | None


class CommandDetail(CommandView, frozen=True, kw_only=True):
    history: list[AuditView]


@dataclass(frozen=True, slots=True)
class CommandFilter:
    """None: whatever it is."""

    site_id: int | None = None
    miner_id: int | None = None
    status: str | None = None
    command_type: str | None = None
    created_by: str | None = None
    dedupe_key: str | None = None
    rule_id: int | None = None


def list_page(conn: Connection, wanted: CommandFilter, window: Window) -> Page[CommandView]:
    if wanted.miner_id is not None:
        query = SQL.commands_of_miner
    else:
        query = SQL.commands if wanted.site_id is None else SQL.commands_of_site
    rows = conn.all(
        query,
        site_id=wanted.site_id,
        miner_id=wanted.miner_id,
        status=wanted.status,
        command_type=wanted.command_type,
        created_by=wanted.created_by,
        dedupe_key=wanted.dedupe_key,
        rule_id=wanted.rule_id,
        before=window.after or INT64_MAX,
        limit=window.limit + 1,
    )
    return page_of(rows, window, "id", view)


def get(conn: Connection, command_id: str) -> CommandView:
    return view(_row(conn, command_id))


def show(conn: Connection, command_id: str) -> CommandDetail:
    """The command and everything that ever happened to it."""
    shown = get(conn, command_id)
    return CommandDetail(**msgspec.structs.asdict(shown), history=audit_listing.history_of(conn, command_id))


def view(row: Row) -> CommandView:
    shown = {name: row[name] for name in CommandView.__struct_fields__}
    shown.update((name, iso_or_none(row[name])) for name in _TIMES)
    shown.update((name, None if row[name] is None else msgspec.Raw(row[name].encode())) for name in _JSON)
    shown.update(created_at=iso(row["created_at"]), expires_at=iso(row["expires_at"]))
    return CommandView(**shown)


def _row(conn: Connection, command_id: str) -> Row:
    row = conn.one(SQL.command, command_id=command_id)
    if row is None:
        raise CommandNotFound()
    return row
