"""`restante events publish`, `list`, `show`, `status`, `errored`, `release` and `drop`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.actor import cli_actor
from restante.cli.database import open_database
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import Columns, present_fields, print_fields, print_json, print_page, print_result, print_table
from restante.core.errors import BadInput
from restante.database.paging import PageRequest
from restante.events.publishing import client_status, errored_events, listing, publishing
from restante.events.publishing.client_status import ClientStatusDetail
from restante.events.publishing.errored_events import Resolution
from restante.events.publishing.listing import STATUSES, EventDetail, EventFilter
from restante.events.publishing.publishing import EventRequest, Publisher

ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The client's client_id.")]
ClientOption = Annotated[str | None, typer.Option("--client", metavar="CLIENT_ID", help="Only events for this client.")]
JtiArgument = Annotated[str, typer.Argument(metavar="JTI", help="The event's jti.")]
JtisArgument = Annotated[list[str] | None, typer.Argument(metavar="[JTI]...", help="The events' jtis.")]
AllOfOption = Annotated[
    str | None, typer.Option("--all-of", metavar="CLIENT_ID", help="All errored events of this client.")
]

_COLUMNS: Columns = {
    "jti": "jti",
    "client_id": "client_id",
    "types": lambda event: ", ".join(event.event_types),
    "status": "status",
    "published": "created_at",
    "reason": "err",
    "explanation": "err_description",
}
_STATUS_COLUMNS: Columns = {
    "client_id": "client_id",
    "name": "name",
    "waiting": "waiting",
    "delivered": "delivered",
    "errored": "errored",
    "oldest": "oldest_at",
    "last poll": "last_poll_at",
    "": lambda client: "removed" if client.is_removed else "suspended" if client.is_suspended else "",
}


def publish(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="The events by type: a JSON object; - for stdin.")],
    client: Annotated[str | None, typer.Option("--client", metavar="CLIENT_ID", help="For this client.")] = None,
    all_subscribers: Annotated[
        bool, typer.Option("--all-subscribers", help="For every client that subscribed to these event types.")
    ] = False,
    sub: Annotated[str | None, typer.Option("--sub", metavar="URI", help="The subject of the event.")] = None,
    sub_id: Annotated[
        str | None, typer.Option("--sub-id", metavar="JSON", help="The subject identifier, for Shared Signals.")
    ] = None,
    txn: Annotated[str | None, typer.Option("--txn", help="The transaction id, the same for related events.")] = None,
    toe: Annotated[
        int | None, typer.Option("--toe", metavar="SECONDS", help="The time of the event. Default: now.")
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Publish an event. A running server signs it, and the next poll delivers it."""
    event = EventRequest(
        events=_object(sys.stdin.read() if events == "-" else events, "EVENTS"),
        client_id=client,
        all_subscribers=all_subscribers,
        sub=sub,
        sub_id=None if sub_id is None else _object(sub_id, "--sub-id"),
        txn=txn,
        toe=toe,
    )
    with open_database(data) as database:
        jtis = database.write_now(publishing.publish, event, Publisher(cli_actor()))
    if json:
        print_json({"jtis": jtis})
    elif jtis:
        typer.echo("\n".join(jtis))
    else:
        typer.echo("Nobody asked for such events: nothing was published.")


def list_events(
    client: ClientOption = None,
    status: Annotated[str | None, typer.Option("--status", help=f"Only events that are {', '.join(STATUSES)}.")] = None,
    txn: Annotated[str | None, typer.Option("--txn", help="Only events of this transaction.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List events, newest first."""
    if status is not None and status not in STATUSES:
        raise BadInput("--status", f"one of {', '.join(STATUSES)}")
    _list(EventFilter(client, status, txn), PageRequest(limit, after), data, json)


def show(jti: JtiArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show one event: its token claims and its deliveries."""
    with open_database(data) as database:
        event = database.read_now(listing.show, jti)
    if json:
        print_json(event)
    else:
        print_fields(present_fields(event, EventDetail.__struct_fields__).items())


def status(
    client: Annotated[str | None, typer.Argument(metavar="[CLIENT_ID]", help="Only this client, in detail.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show the event counts of each client: waiting, delivered but not acknowledged, and errored."""
    with open_database(data) as database:
        if client is not None:
            detail = database.read_now(client_status.show, client)
        else:
            page = database.read_now(client_status.list_page, PageRequest(limit, after))
    if client is None:
        print_page(page, _STATUS_COLUMNS, json, when_empty="No clients.")
    elif json:
        print_json(detail)
    else:
        _print_status(detail)


def errored(
    client: ClientOption = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List errored events: those that clients could not use, with the clients' reasons."""
    _list(EventFilter(client, "errored"), PageRequest(limit, after), data, json)


def release(
    jtis: JtisArgument = None, all_of: AllOfOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Release errored events: they are delivered again, unchanged."""
    _resolve(Resolution.release, jtis, all_of, data, json)


def drop(
    jtis: JtisArgument = None, all_of: AllOfOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Drop errored events: they are never delivered again."""
    _resolve(Resolution.drop, jtis, all_of, data, json)


def add_commands(app: typer.Typer) -> None:
    for command in (publish, show, status, errored, release, drop):
        app.command(command.__name__)(command)
    app.command("list")(list_events)


def _list(event_filter: EventFilter, request: PageRequest, data: Path | None, json: bool) -> None:
    with open_database(data) as database:
        page = database.read_now(listing.list_page, event_filter, request)
    print_page(page, _COLUMNS, json, when_empty="No events.")


def _resolve(resolution: Resolution, jtis: list[str] | None, all_of: str | None, data: Path | None, json: bool) -> None:
    if bool(jtis) == (all_of is not None):
        raise typer.BadParameter("give the jtis of the events, or --all-of CLIENT_ID")
    with open_database(data) as database:
        if all_of is not None:
            count = database.write_now(errored_events.resolve_all, resolution, all_of, cli_actor())
        else:
            count = database.write_now(errored_events.resolve_some, resolution, jtis or [], cli_actor())
    print_result({"count": count}, f"{count} {'event is' if count == 1 else 'events are'} {resolution}.", json)


def _object(text: str, field: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise BadInput(field, "a JSON object") from None


def _print_status(status: ClientStatusDetail) -> None:
    names = (name for name in ClientStatusDetail.__struct_fields__ if name not in ("reasons", "receivers"))
    print_fields([(name.replace("_", " "), getattr(status, name)) for name in names])
    if status.reasons:
        print_table(
            ("reason", "events", "newest explanation"),
            [(reason.err, reason.count, reason.newest_description) for reason in status.reasons],
            when_empty="",
        )
    if status.receivers:
        print_table(
            ("pushed to", "profile", "waiting", "failures", "problem"),
            [
                (receiver.url, receiver.profile, receiver.waiting, receiver.failures, receiver.problem)
                for receiver in status.receivers
            ],
            when_empty="",
        )
