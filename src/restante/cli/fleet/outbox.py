"""`restante outbox` and `restante poll-boost`: signals on their way to devices, and faster polling of all devices."""

from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, when
from restante.cli.remote import filters
from restante.cli.remote.noun import Call, Filter, Filters, Item, Noun, Page
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import choice, whole_number
from restante.outbox import schema as schema_of

OUTBOX = Noun("Signals on their way to devices.")
POLL_BOOST = Noun("Faster polling of all devices for some time.")
outbox_app, poll_boost_app = OUTBOX.app, POLL_BOOST.app

SourceOption = Annotated[
    str | None,
    typer.Option("--source", metavar="NAME", help="The outbox, as `outbox sources` lists them. Default: the server's."),
]
COLUMNS: Columns = {
    "id": "id",
    "device": "device_id",
    "type": "event_kind",
    "status": "status",
    "attempts": "attempts",
    "created": when("created_at"),
    "next attempt": when("next_attempt_at"),
    "failure": "failure_reason",
}


FILTERS: Filters = {**filters.OUTBOX, "source": Filter(SourceOption)}


@OUTBOX.lists(COLUMNS, empty="No rows.", filters=FILTERS, counts=lambda call: call.client.outbox.counts(**call.filters))
def list_rows(call: Call) -> Page:
    """List outbox rows, newest first."""
    return call.page(call.client.outbox.list_page, **call.filters)


OUTBOX.exports(
    "outbox rows", lambda call, format: call.client.outbox.export(format=format, **call.filters), filters=FILTERS
)


RowArgument = Annotated[int, typer.Argument(metavar="ID", parser=whole_number, help="The row's id.")]


@OUTBOX.shows()
def show(call: Call, row: RowArgument, source: SourceOption = None) -> Item:
    """Show all fields of one row."""
    return dict(call.client.outbox.get(row, source=source))


@OUTBOX.does("retry", "{retried} of the rows will be tried again.")
def retry(
    call: Call,
    rows: Annotated[list[int] | None, typer.Argument(metavar="ID", parser=whole_number, help="The rows' ids.")] = None,
    all_failed: Annotated[bool, typer.Option("--all", help="Every FAILED row.")] = False,
    source: SourceOption = None,
) -> Any:
    """Retry FAILED rows: they become PENDING again, with no attempts and no failure."""
    if bool(rows) == all_failed:
        raise typer.BadParameter("give the ids of the rows, or --all")
    if all_failed:
        return call.client.outbox.retry_all(source=source)
    return {"retried": sum(call.client.outbox.retry(row, source=source)["retried"] for row in rows or ())}


@OUTBOX.lists(
    {
        "source": "source",
        "pending": "pending",
        "failed": "failed",
        "oldest pending": Column(lambda outbox: _age(outbox.get("oldest_pending_ms"))),
        "problem": "problem",
    },
    empty="No outboxes.",
    name="sources",
)
def sources(call: Call) -> Page:
    """List the outboxes: the server's own, and those in your databases."""
    return {"items": call.client.outbox.sources()["items"], "next": None}


def _age(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / 1000:.0f} s"


@outbox_app.command("schema")
def schema(
    kind: Annotated[
        str, choice("--for", ("postgresql", "mysql", "sqlite"), "The kind of your database. MariaDB: mysql.")
    ],
    notify: Annotated[
        bool, typer.Option("--notify", help="PostgreSQL: also a trigger that notifies the server of each commit.")
    ] = False,
) -> None:
    """Print the statements that create the outbox table in your own database."""
    typer.echo(schema_of(kind, notify=notify), nl=False)  # type: ignore[arg-type]


@POLL_BOOST.shows()
def show_boost(call: Call) -> Item:
    """Show whether all devices poll faster now, and until when."""
    return dict(call.client.poll_boost.get())


@POLL_BOOST.does("start", "Every device gets a poll interval of {interval_seconds} s.")
def start(
    call: Call,
    for_seconds: Annotated[str, typer.Option("--for", metavar="TIME", help="How long: 30m, 2h.")],
    interval_seconds: Annotated[
        int, typer.Option("--interval", metavar="SECONDS", parser=whole_number, help="The interval of polls.")
    ] = 15,
) -> Any:
    """Make all devices poll faster for a limited time."""
    seconds = parse_duration(for_seconds, "--for")
    return call.client.poll_boost.start(for_seconds=seconds, interval_seconds=interval_seconds)


@POLL_BOOST.does("stop", "Devices poll at their ordinary interval again.")
def stop(call: Call) -> Any:
    """Return to the ordinary interval now."""
    call.client.poll_boost.stop()
    return {"active": False}
