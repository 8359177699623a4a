"""Lists of the audit trail: by command, site, actor, event and time, newest first, in pages."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from restante.core.commands.command_states import Event
from restante.core.decoding import INT64_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, read_page
from restante.database.queries import queries_beside
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)


class AuditView(msgspec.Struct, frozen=True):
    id: int
    site_id: int
    n: int
    at: Timestamp
    actor: str
    event: str
    command_id: str | None
    from_state: str | None
    to_state: str | None
    detail: msgspec.Raw
    hash: str


# Every event of the trail, for filters. Those of commands that change a state are named after `Event`.
EVENTS = (
    *("command.created", "command.lease_extended", "command.params_renamed"),
    *(f"command.{event}" for event in Event),
    "ack.refused",
    *("approval.policy_changed", "approval.policy_imported"),
    *("collector.created", "collector.revoked", "collector.secret_read"),
    *("collector.secret_rotated", "collector.token_rotated", "collector.tagged", "collector.untagged"),
    *("rule.created", "rule.changed", "rule.deleted", "rule.refused"),
    *("site.created", "site.renamed", "site.retired", "zone.created", "zone.renamed", "zone.retired"),
    *("miner.created", "miner.renamed", "miner.moved", "miner.retired", "miner.tagged", "miner.untagged"),
    "rule.miner_replaced",
    *("chain.opened", "audit.heads", "audit.set_back"),
)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """None in a field: any value. Times: from `since_ms` on, and before `until_ms`."""

    site_id: int | None = None
    command_id: str | None = None
    actor: str | None = None
    event: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def list_page(
    conn: Connection, filters: AuditFilter, page: PageRequest, sites: AllowedIds = ALL_IDS
) -> Page[AuditView]:
    """A page of the trail, newest first. Only who may see every site sees the rows of no site."""
    query = SQL.rows if filters.command_id is None else SQL.rows_of_command

    def read(after: int, limit: int) -> Sequence[Row]:
        return conn.all(
            query,
            site_id=filters.site_id,
            sites=sites.as_json(),
            command_id=filters.command_id,
            actor=filters.actor,
            event=filters.event,
            since_ms=filters.since_ms or 0,
            until_ms=INT64_MAX if filters.until_ms is None else filters.until_ms,
            before=after or INT64_MAX,
            limit=limit,
        )

    return read_page(read, page, "id", view)


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
