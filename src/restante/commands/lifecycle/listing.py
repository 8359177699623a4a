"""Commands as operators see them: filtered lists, newest first, and a single command with its history.

Operators see the owner and the end of a lease, never its nonce: only the server and the collector know it. Secret
parameters are masked.
"""

from dataclasses import dataclass

import msgspec

from restante.commands.acks import repeated_reports
from restante.commands.acks.repeated_reports import RepeatedReport
from restante.commands.audit import audit_listing
from restante.commands.audit.audit_listing import AuditFilter, AuditView
from restante.commands.errors import CommandNotFound
from restante.commands.lifecycle.secret_params import masked_text
from restante.commands.sites.site_scope import site_filter
from restante.core.commands.command_states import State
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import FilteredList, StateCounting, among, between, equal
from restante.database.paging import Page, PageRequest
from restante.database.queries import queries_beside
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

HISTORY_ROWS_MAX = 500

_TIMES = ("approved_at", "lease_until", "dispatched_at", "next_attempt_at", "acked_at", "executed_at", "finished_at")
_JSON = ("before_snapshot", "after_snapshot")


class CommandView(msgspec.Struct, frozen=True, kw_only=True):
    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    command_type: str
    params: msgspec.Raw
    priority: int
    status: str
    created_at: Timestamp
    created_by: str
    expires_at: Timestamp
    dedupe_key: str | None
    rule_id: int | None
    approved_by: str | None
    approved_at: Timestamp | None
    lease_owner: int | None
    lease_until: Timestamp | None
    dispatched_at: Timestamp | None
    attempt: int
    retry_count: int
    max_retries: int
    next_attempt_at: Timestamp | None
    acked_at: Timestamp | None
    executed_at: Timestamp | None
    result_code: str | None
    result_message: str | None
    before_snapshot: msgspec.Raw | None
    after_snapshot: msgspec.Raw | None
    superseded_by: str | None
    finished_at: Timestamp | None


class CommandDetail(CommandView, frozen=True, kw_only=True):
    """`history`: the newest audit rows of the command, oldest first. `history_next`: if there are older ones, the
    `after` that lists them in the audit trail of this command. `repeated_reports`: what collectors sent again and
    again, which the trail does not record each time."""

    history: list[AuditView]
    history_next: int | None
    repeated_reports: list[RepeatedReport]


@dataclass(frozen=True, slots=True)
class CommandFilter:
    """None in a field: any value. `since_ms` <= creation < `until_ms`. `lease_owner`: the collector with the lease."""

    site_id: int | None = None
    miner_id: int | None = None
    status: str | None = None
    command_type: str | None = None
    created_by: str | None = None
    dedupe_key: str | None = None
    rule_id: int | None = None
    zone_id: int | None = None
    lease_owner: int | None = None
    result_code: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def list_page(
    conn: Connection, filters: CommandFilter, page: PageRequest, sites: AllowedIds = ALL_IDS
) -> Page[CommandView]:
    """A page of the commands of the allowed sites, newest first."""
    return filtered_list.read(conn, filtered(filters, sites), page, view)


def counting(filters: CommandFilter, sites: AllowedIds = ALL_IDS) -> StateCounting:
    """Counts the commands of the allowed sites that match, in each state."""
    return StateCounting(lambda _conn: filtered(filters, sites), "status", list(State))


def filtered(filters: CommandFilter, sites: AllowedIds) -> FilteredList:
    """The list of the commands that match: those of a miner or a site are read from its index."""
    site_id = site_filter(sites, filters.site_id)
    of_miner, of_site = equal("miner_id", filters.miner_id), equal("site_id", site_id)
    return FilteredList(
        "*",
        "miner_commands",
        indexed=of_miner or of_site,
        rest=(
            *(of_site if of_miner else ()),
            *among("site_id", None if site_id is not None and site_id in sites else sites.as_json()),
            *equal("status", filters.status),
            *equal("command_type", filters.command_type),
            *equal("created_by", filters.created_by),
            *equal("dedupe_key", filters.dedupe_key),
            *equal("rule_id", filters.rule_id),
            *equal("zone_id", filters.zone_id),
            *equal("lease_owner", filters.lease_owner),
            *equal("result_code", filters.result_code),
            *between("created_at", filters.since_ms, filters.until_ms),
        ),
    )


def get(conn: Connection, command_id: str) -> CommandView:
    return view(_row(conn, command_id))


def show(conn: Connection, command_id: str) -> CommandDetail:
    """Return the command with its history."""
    command = get(conn, command_id)
    page = audit_listing.list_page(conn, AuditFilter(command_id=command_id), PageRequest(HISTORY_ROWS_MAX, 0))
    return CommandDetail(
        **msgspec.structs.asdict(command),
        history=page.items[::-1],
        history_next=page.next,
        repeated_reports=repeated_reports.reports_of(conn, command_id),
    )


def view(row: Row) -> CommandView:
    fields = {name: row[name] for name in CommandView.__struct_fields__}
    fields.update((name, iso_precise(row[name])) for name in _TIMES)
    fields.update((name, None if row[name] is None else msgspec.Raw(row[name].encode())) for name in _JSON)
    if row["is_held"]:
        # The time of the next check, which says nothing about the next attempt.
        fields["next_attempt_at"] = None
    fields.update(created_at=iso_precise(row["created_at"]), expires_at=iso_precise(row["expires_at"]))
    fields["params"] = msgspec.Raw(masked_text(row["command_type"], row["params"]).encode())
    return CommandView(**fields)


def _row(conn: Connection, command_id: str) -> Row:
    row = conn.one(SQL.command, command_id=command_id)
    if row is None:
        raise CommandNotFound()
    return row
