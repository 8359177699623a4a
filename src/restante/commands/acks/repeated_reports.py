"""Repeated reports: what a collector sends again and again for one command is counted in one row.

    refused ACKs, by error · `running` of a command that runs already · lease extensions
        ──▶ counted; the audit trail gets a row at the 1st, 2nd, 4th, 8th … time, with the count (`times`)

Audit rows are never deleted, so a collector must not be able to add any number of them. A million repetitions leave
twenty rows. All commands that do not exist at the collector's site count as one: the collector chooses their names.
Changes of a command's state are not counted here: each has its row.
"""

from collections.abc import Iterable

import msgspec

from restante.commands.audit.audit_trail import AuditEntry
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

NO_COMMAND = ""
SHOWN_MAX = 100


class Report(msgspec.Struct, frozen=True):
    """A report that may be repeated. `kind`: an error code, or the event."""

    device_id: int
    kind: str
    entry: AuditEntry


class RepeatedReport(msgspec.Struct, frozen=True):
    device_id: int
    kind: str
    count: int
    first_at: Timestamp
    last_at: Timestamp


def count_reports(conn: Connection, reports: Iterable[Report]) -> list[AuditEntry]:
    """Count the reports. Return the audit entries of those that are recorded. The caller holds the site's lock."""
    entries = []
    for report in reports:
        command_id = report.entry.command_id or NO_COMMAND
        row = conn.one(
            SQL.count, device_id=report.device_id, command_id=command_id, kind=report.kind, now_ms=conn.now_ms
        )
        times = 1 if row is None else int(row["count"])
        if times == 1:
            entries.append(report.entry)
        elif times & (times - 1) == 0:
            entries.append(msgspec.structs.replace(report.entry, detail={**report.entry.detail, "times": times}))
    return entries


def reports_of(conn: Connection, command_id: str) -> list[RepeatedReport]:
    """The reports on a command that came more than once."""
    return [
        RepeatedReport(
            row["device_id"], row["kind"], row["count"], iso_precise(row["first_at"]), iso_precise(row["last_at"])
        )
        for row in conn.all(SQL.repeated, command_id=command_id, limit=SHOWN_MAX)
    ]
