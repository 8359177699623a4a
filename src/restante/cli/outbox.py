"""`restante outbox`: look at signals on their way to devices, and give failed ones a new start."""

from enum import StrEnum
from typing import Annotated

import typer

from restante.cli.opening import opened
from restante.cli.options import ID_MAX, AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import moment, show_json, show_record, show_table
from restante.core.errors import NotFound
from restante.delivery import outbox
from restante.delivery.outbox import OutboxRow

app = typer.Typer(no_args_is_help=True, help="Signals on their way to devices.")


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
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List outbox rows, newest first."""
    with opened(data) as database:
        rows = database.read_now(outbox.list_rows, status.value if status else None, device, limit, after)
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
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show everything about one row."""
    with opened(data) as database:
        row = database.read_now(outbox.get_row, row_id)
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
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Give FAILED rows a new start: PENDING, no attempts, no failure."""
    if bool(row_ids) == all_failed:
        raise typer.BadParameter("give the ids of the rows, or --all")
    with opened(data) as database:
        reset = database.write_now(outbox.retry, None if all_failed else row_ids)
    if row_ids and not reset:
        raise NotFound("none of these rows is FAILED: nothing was changed")
    if json:
        show_json({"retried": reset})
    else:
        typer.echo(f"{reset} {'row' if reset == 1 else 'rows'} will be tried again.")


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
