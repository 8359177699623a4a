"""Looking into the audit trail: by command, site, actor, event and time, newest first, in pages."""

from dataclasses import dataclass

import msgspec

from restante.commands.wire import iso_precise
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.web.ask import INT64_MAX
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)


class AuditView(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    n: int
    at: str
    actor: str
    event: str
    command_id: str | None
    from_state: str | None
    to_state: str | None
    detail: msgspec.Raw
    hash: str


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """None: whatever it is. Times: from `since_ms` on, and before `until_ms`."""

    site_id: int | None = None
    command_id: str | None = None
    actor: str | None = None
    event: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def list_page(conn: Connection, wanted: AuditFilter, window: Window) -> Page[AuditView]:
    query = SQL.rows if wanted.command_id is None else SQL.rows_of_command
    rows = conn.all(
        query,
        site_id=wanted.site_id,
        command_id=wanted.command_id,
        actor=wanted.actor,
        event=wanted.event,
        since_ms=wanted.since_ms or 0,
        until_ms=INT64_MAX if wanted.until_ms is None else wanted.until_ms,
        before=window.after or INT64_MAX,
        limit=window.limit + 1,
    )
    return page_of(rows, window, "id", view)


def history_of(conn: Connection, command_id: str) -> list[AuditView]:
    """Everything that happened to a command, from the first to the last."""
    return [view(row) for row in conn.all(SQL.history, command_id=command_id)]


def view(row: Row) -> AuditView:
    return AuditView(
        id=row["id"],
        site_id=row["chain"],
        n=row["n"],
        at=iso_precise(row["at"]),
        actor=row["actor"],
        event=row["event"],
        command_id=row["command_id"],
        from_state=row["from_state"],
        to_state=row["to_state"],
        detail=msgspec.Raw(row["detail"].encode()),
        hash=row["hash"].hex(),
    )
