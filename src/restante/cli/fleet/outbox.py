"""`restante outbox`: list the signals on their way to devices, and retry failed ones."""

from enum import StrEnum
from operator import itemgetter
from typing import Annotated

import typer

from restante.cli.database import open_outboxes
from restante.cli.options import ID_MAX, AfterOption, ConfigOption, DataOption, JsonOption, LimitOption
from restante.cli.output import Columns, print_items, print_record, print_result, time_of
from restante.core.errors import NotFound
from restante.database.errors import DatabaseError
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import OWN_SOURCE
from restante.delivery.outbox.outbox_sources import OutboxSource, find_source
from restante.outbox import DatabaseKind
from restante.outbox import schema as schema_of

app = typer.Typer(no_args_is_help=True, help="Signals on their way to devices.")


SourceOption = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="NAME",
        help="The name of the outbox, as `outbox sources` lists them. Default: the server's own.",
    ),
]

_COLUMNS: Columns = {
    "id": "id",
    "device": "device_id",
    "type": "event_kind",
    "status": "status",
    "attempts": "attempts",
    "created": time_of("created_at"),
    "next attempt": time_of("next_attempt_at"),
    "failure": "failure_reason",
}
_FIELDS: Columns = {
    "id": "id",
    "source": "source",
    "device": "device_id",
    "type": "event_kind",
    "status": "status",
    "attempts": "attempts",
    "created": time_of("created_at"),
    "next attempt": time_of("next_attempt_at"),
    "claimed by": "claimed_by",
    "claimed": time_of("claimed_at"),
    "lease ends": time_of("lock_expires_at"),
    "delivered": time_of("delivered_at"),
    "failure": "failure_reason",
    "payload": "payload",
}
_SOURCE_COLUMNS: Columns = {
    "source": itemgetter("source"),
    "pending": itemgetter("pending"),
    "failed": itemgetter("failed"),
    "oldest pending": itemgetter("oldest_pending_ms"),
    "problem": itemgetter("problem"),
}


class Status(StrEnum):
    pending = "PENDING"
    delivered = "DELIVERED"
    failed = "FAILED"


@app.command("list")
def list_rows(
    status: Annotated[
        Status | None, typer.Option("--status", case_sensitive=False, help="Only rows in this state.")
    ] = None,
    device: Annotated[
        int | None, typer.Option("--device", min=0, max=ID_MAX, help="Only rows for this device.")
    ] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    source: SourceOption = OWN_SOURCE,
    data: DataOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List outbox rows, newest first."""
    with open_outboxes(data, config) as sources:
        database = find_source(sources, source).database
        rows = database.read_now(outbox.list_rows, status.value if status else None, device, limit, after, source)
    print_items(rows, _COLUMNS, json, when_empty="No rows.")


@app.command("show")
def show(
    row_id: Annotated[int, typer.Argument(metavar="ID", min=0, max=ID_MAX, help="The row's id.")],
    source: SourceOption = OWN_SOURCE,
    data: DataOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show all fields of one row."""
    with open_outboxes(data, config) as sources:
        row = find_source(sources, source).database.read_now(outbox.get_row, row_id, source)
    if row is None:
        raise NotFound(f"there is no outbox row {row_id}")
    print_record(row, _FIELDS, json)


@app.command("retry")
def retry(
    row_ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", min=0, max=ID_MAX, help="The rows' ids.")
    ] = None,
    all_failed: Annotated[bool, typer.Option("--all", help="Every FAILED row.")] = False,
    source: SourceOption = OWN_SOURCE,
    data: DataOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Retry FAILED rows: they become PENDING again, with no attempts and no failure."""
    if bool(row_ids) == all_failed:
        raise typer.BadParameter("give the ids of the rows, or --all")
    with open_outboxes(data, config) as sources:
        reset = find_source(sources, source).database.write_now(outbox.retry, None if all_failed else row_ids)
    if row_ids and not reset:
        raise NotFound("none of these rows is FAILED: nothing was changed")
    print_result({"retried": reset}, f"{reset} {'row' if reset == 1 else 'rows'} will be tried again.", json)


@app.command("sources")
def sources(data: DataOption = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the outboxes, the server's own and those in your databases, with their counts."""
    with open_outboxes(data, config) as found:
        statuses = [_status(source) for source in found.values()]
    print_items(statuses, _SOURCE_COLUMNS, json, when_empty="There are none.")


@app.command("schema")
def schema(
    kind: Annotated[
        DatabaseKind, typer.Option("--for", metavar="postgresql|mysql|sqlite", help="The kind of your database.")
    ],
    notify: Annotated[
        bool, typer.Option("--notify", help="PostgreSQL: add a trigger that notifies the server of every commit.")
    ] = False,
) -> None:
    """Print the SQL that creates the outbox table in a database of yours."""
    typer.echo(schema_of(kind, notify=notify), nl=False)


def _status(source: OutboxSource) -> dict[str, object]:
    try:
        counts = source.database.read_now(outbox.counts)
    except DatabaseError as error:
        return {
            "source": source.name,
            "pending": None,
            "failed": None,
            "oldest_pending_ms": None,
            "problem": str(error),
        }
    return {"source": source.name, **counts, "problem": None}
