"""`restante events publish`, `list`, `show`, `status`, `errored`, `release`, `drop`: events on their way to clients."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.edge import actor, show_next
from restante.cli.opening import opened
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import show_json, show_record, show_table
from restante.core.errors import BadInput
from restante.events import client_status, listing, publishing, releasing
from restante.events.client_status import ClientStatus, ClientStatusDetail
from restante.events.listing import STATUSES, EventDetail, EventFilter, EventView
from restante.events.publishing import EventWish, Publisher
from restante.events.releasing import Decision
from restante.web.paging import Window

ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The client's client_id.")]
ClientOption = Annotated[str | None, typer.Option("--client", metavar="CLIENT_ID", help="Only events for this client.")]
JtiArgument = Annotated[str, typer.Argument(metavar="JTI", help="The event's jti.")]
JtisArgument = Annotated[list[str] | None, typer.Argument(metavar="[JTI]...", help="The events' jtis.")]
AllOfOption = Annotated[
    str | None, typer.Option("--all-of", metavar="CLIENT_ID", help="Everything that this client could not use.")
]


def publish(
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="The events by type: a JSON object; - reads it here.")
    ],
    client: Annotated[str | None, typer.Option("--client", metavar="CLIENT_ID", help="For this client.")] = None,
    all_subscribers: Annotated[
        bool, typer.Option("--all-subscribers", help="For every client that asked for such events.")
    ] = False,
    sub: Annotated[str | None, typer.Option("--sub", metavar="URI", help="What it is about.")] = None,
    sub_id: Annotated[
        str | None, typer.Option("--sub-id", metavar="JSON", help="Whom it is about, for shared signals.")
    ] = None,
    txn: Annotated[str | None, typer.Option("--txn", help="The same for all that belongs together.")] = None,
    toe: Annotated[int | None, typer.Option("--toe", metavar="SECONDS", help="When it happened; else now.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Publish an event; a running server signs it, and hands it out at the next poll."""
    wish = EventWish(
        events=_object(sys.stdin.read() if events == "-" else events, "EVENTS"),
        client_id=client,
        all_subscribers=all_subscribers,
        sub=sub,
        sub_id=None if sub_id is None else _object(sub_id, "--sub-id"),
        txn=txn,
        toe=toe,
    )
    with opened(data) as database:
        jtis = database.write_now(publishing.publish, wish, Publisher(actor()))
    if json:
        show_json({"jtis": jtis})
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
    _list(EventFilter(client, status, txn), Window(limit, after), data, json)


def show(jti: JtiArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show everything about one event: what it says, and what became of it."""
    with opened(data) as database:
        event = database.read_now(listing.show, jti)
    if json:
        show_json(event)
    else:
        show_record(_details(event))


def status(
    client: Annotated[str | None, typer.Argument(metavar="[CLIENT_ID]", help="Only this client, in detail.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show how each client stands: what waits, what it was handed and did not acknowledge, what it could not use."""
    with opened(data) as database:
        if client is not None:
            shown = database.read_now(client_status.show, client)
        else:
            page = database.read_now(client_status.list_page, Window(limit, after))
    if client is not None:
        if json:
            show_json(shown)
        else:
            _show_status(shown)
    elif json:
        show_json(page)
    else:
        columns = ("client_id", "name", "waiting", "delivered", "errored", "oldest", "last poll", "")
        show_table(columns, [_standing(each) for each in page.items], when_empty="No clients.")
        show_next(page.next)


def errored(
    client: ClientOption = None,
    limit: LimitOption = 100,
    after: AfterOption = 0,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """List the events that clients could not use, with the reasons they gave."""
    _list(EventFilter(client, "errored"), Window(limit, after), data, json)


def release(
    jtis: JtisArgument = None, all_of: AllOfOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Have errored events handed out again, as they are."""
    _decide(Decision.release, jtis, all_of, data, json)


def drop(
    jtis: JtisArgument = None, all_of: AllOfOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Give up errored events: they are never handed out again."""
    _decide(Decision.drop, jtis, all_of, data, json)


def add_to(app: typer.Typer) -> None:
    for command in (publish, show, status, errored, release, drop):
        app.command(command.__name__)(command)
    app.command("list")(list_events)


def _list(wanted: EventFilter, window: Window, data: Path | None, json: bool) -> None:
    with opened(data) as database:
        page = database.read_now(listing.list_page, wanted, window)
    if json:
        show_json(page)
        return
    columns = ("jti", "client_id", "types", "status", "published", "reason", "explanation")
    show_table(columns, [_summary(event) for event in page.items], when_empty="No events.")
    show_next(page.next)


def _decide(decision: Decision, jtis: list[str] | None, all_of: str | None, data: Path | None, json: bool) -> None:
    if bool(jtis) == (all_of is not None):
        raise typer.BadParameter("give the jtis of the events, or --all-of CLIENT_ID")
    with opened(data) as database:
        if all_of is not None:
            count = database.write_now(releasing.decide_all, decision, all_of, actor())
        else:
            count = database.write_now(releasing.decide_some, decision, jtis or [], actor())
    if json:
        show_json({"count": count})
    else:
        typer.echo(f"{count} {'event is' if count == 1 else 'events are'} {decision}.")


def _object(text: str, field: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise BadInput(field, "a JSON object") from None


def _summary(event: EventView) -> tuple[object, ...]:
    types = ", ".join(event.event_types)
    return (event.jti, event.client_id, types, event.status, event.created_at, event.err, event.err_description)


def _details(event: EventDetail) -> list[tuple[str, object]]:
    fields = ((name, getattr(event, name)) for name in EventDetail.__struct_fields__)
    return [(name.replace("_", " "), _text(value)) for name, value in fields if value is not None]


def _text(value: object) -> object:
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value


def _standing(each: ClientStatus) -> tuple[object, ...]:
    suspended = "suspended" if each.is_suspended else ""
    counts = (each.waiting, each.delivered, each.errored)
    return (each.client_id, each.name, *counts, each.oldest_at, each.last_poll_at, suspended)


def _show_status(shown: ClientStatusDetail) -> None:
    plain = (name for name in ClientStatusDetail.__struct_fields__ if name not in ("reasons", "receivers"))
    show_record([(name.replace("_", " "), getattr(shown, name)) for name in plain])
    if shown.reasons:
        show_table(
            ("reason", "events", "newest explanation"),
            [(each.err, each.count, each.newest_description) for each in shown.reasons],
            when_empty="",
        )
    if shown.receivers:
        show_table(
            ("pushed to", "profile", "waiting", "failures", "problem"),
            [(each.url, each.profile, each.waiting, each.failures, each.problem) for each in shown.receivers],
            when_empty="",
        )
