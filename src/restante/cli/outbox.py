"""`restante outbox`: look at signals on their way to devices, and give failed ones a new start."""

from enum import StrEnum
from typing import Annotated

import typer

from restante.cli.opening import opened_sources
from restante.cli.options import ID_MAX, AfterOption, ConfigOption, DataOption, JsonOption, LimitOption
from restante.cli.output import moment, show_json, show_record, show_table
from restante.core.errors import NotFound
from restante.database.errors import DatabaseError
from restante.delivery import outbox
from restante.delivery.outbox import OWN_SOURCE, OutboxRow
from restante.delivery.sources import Source, source_named
from restante.outbox import DatabaseKind
from restante.outbox import schema as schema_of

app = typer.Typer(no_args_is_help=True, help="Signals on their way to devices.")


SourceOption = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="NAME",
        help="The outbox of this name, as `outbox sources` lists them; else the server's own.",
    ),
]


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
    with opened_sources(data, config) as sources:
        place = source_named(sources, source).database
        rows = place.read_now(outbox.list_rows, status.value if status else None, device, limit, after, source)
    if json:
        show_json(rows)
    else:
        show_table(
            ("id", "device", "type", "status", "attempts", "created", "next attempt", "failure"),
            [_summary(row) for row in rows],
            when_empty="No rows.",
        )


@app.command("show")
def show(
    row_id: Annotated[int, typer.Argument(metavar="ID", min=0, max=ID_MAX, help="The row's id.")],
    source: SourceOption = OWN_SOURCE,
    data: DataOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show everything about one row."""
    with opened_sources(data, config) as sources:
        row = source_named(sources, source).database.read_now(outbox.get_row, row_id, source)
    if row is None:
        raise NotFound(f"there is no outbox row {row_id}")
    if json:
        show_json(row)
    else:
        show_record(_details(row))


@app.command("retry")
def retry(
    row_ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", min=0, max=ID_MAX, help="The rows' ids.")
    ] = None,
    all_failed: Annotated[bool, typer.Option("--all", help="Every row that FAILED.")] = False,
    source: SourceOption = OWN_SOURCE,
    data: DataOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Give FAILED rows a new start: PENDING, no attempts, no failure."""
    if bool(row_ids) == all_failed:
        raise typer.BadParameter("give the ids of the rows, or --all")
    with opened_sources(data, config) as sources:
        reset = source_named(sources, source).database.write_now(outbox.retry, None if all_failed else row_ids)
    if row_ids and not reset:
        raise NotFound("none of these rows is FAILED: nothing was changed")
    if json:
        show_json({"retried": reset})
    else:
        typer.echo(f"{reset} {'row' if reset == 1 else 'rows'} will be tried again.")


@app.command("sources")
def sources(data: DataOption = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the outboxes, the server's own and those in databases of yours, and how they stand."""
    with opened_sources(data, config) as found:
        standing = [_standing(source) for source in found.values()]
    if json:
        show_json(standing)
    else:
        show_table(
            ("source", "pending", "failed", "oldest pending", "problem"),
            [tuple(each.values()) for each in standing],
            when_empty="There are none.",
        )


@app.command("schema")
def schema(
    kind: Annotated[
        DatabaseKind, typer.Option("--for", metavar="postgresql|mysql|sqlite", help="The kind of your database.")
    ],
    notify: Annotated[
        bool, typer.Option("--notify", help="PostgreSQL: with a trigger that tells the server of every commit to it.")
    ] = False,
) -> None:
    """Print the statements that make the outbox table in a database of your own."""
    typer.echo(schema_of(kind, notify=notify), nl=False)


def _standing(source: Source) -> dict[str, object]:
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


def _summary(row: OutboxRow) -> tuple[object, ...]:
    return (
        row.id,
        row.device_id,
        row.event_kind,
        row.status,
        row.attempts,
        moment(row.created_at),
        moment(row.next_attempt_at),
        row.failure_reason,
    )


def _details(row: OutboxRow) -> list[tuple[str, object]]:
    return [
        ("id", row.id),
        ("source", row.source),
        ("device", row.device_id),
        ("type", row.event_kind),
        ("status", row.status),
        ("attempts", row.attempts),
        ("created", moment(row.created_at)),
        ("next attempt", moment(row.next_attempt_at)),
        ("claimed by", row.claimed_by),
        ("claimed", moment(row.claimed_at)),
        ("lease ends", moment(row.lock_expires_at)),
        ("delivered", moment(row.delivered_at)),
        ("failure", row.failure_reason),
        ("payload", row.payload),
    ]
