"""`restante event`: events for clients."""

import sys
import time
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.events.clients import ClientArgument
from restante.cli.output import Column, Columns, identity, joined, printable, when
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import client_of, event_of
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import normalised
from restante.cli.remote.values import json_object, whole_number

EVENT = Noun("Events for clients.")
app = EVENT.app

LISTEN_SECONDS = 1.0
NEWEST = 500
ClientOption = Annotated[
    str | None,
    typer.Option("--client", metavar="CLIENT_ID", help="Only for this client.", autocompletion=completion.CLIENTS),
]
JtiArgument = Annotated[
    str,
    typer.Argument(metavar="JTI", help="The event's jti, or its beginning.", autocompletion=completion.EVENTS),
]
JtisArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="JTI", help="The events' jtis.", autocompletion=completion.EVENTS),
]
AllOfOption = Annotated[
    str | None, typer.Option("--all-of", metavar="CLIENT_ID", help="All errored events of this client.")
]
COLUMNS: Columns = {
    "jti": identity("jti"),
    "client": "client_id",
    "types": joined("event_types"),
    "status": "status",
    "published": when("created_at"),
    "reason": "err",
    "explanation": "err_description",
}


@EVENT.lists(
    COLUMNS,
    empty="No events.",
    filters=filters.EVENTS,
    counts=lambda call: call.client.events.counts(**call.filters),
)
def list_events(call: Call) -> Page:
    """List events, newest first."""
    return call.page(call.client.events.list_page, **call.filters)


EVENT.exports(
    "events", lambda call, format: call.client.events.export(format=format, **call.filters), filters=filters.EVENTS
)


@EVENT.shows()
def show(call: Call, jti: JtiArgument) -> Item:
    """Show one event: its token claims and its deliveries."""
    return dict(call.client.events.get(event_of(call, jti)))


@EVENT.runs("publish")
def publish(
    call: Call,
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="The events by type: a JSON object, @FILE, or - for stdin.")
    ],
    client_id: Annotated[str | None, typer.Option("--client", metavar="CLIENT_ID", help="For this client.")] = None,
    all_subscribers: Annotated[
        bool, typer.Option("--all-subscribers", help="For every client that subscribed to these event types.")
    ] = False,
    sub: Annotated[str | None, typer.Option("--sub", metavar="URI", help="The subject of the event.")] = None,
    sub_id: Annotated[
        str | None, typer.Option("--sub-id", metavar="JSON", help="The subject identifier, for Shared Signals.")
    ] = None,
    txn: Annotated[
        str | None, typer.Option("--txn", metavar="ID", help="The transaction id, the same for related events.")
    ] = None,
    toe: Annotated[
        int | None,
        typer.Option(
            "--toe",
            metavar="SECONDS",
            parser=whole_number,
            help="The time of the event, in seconds since 1970. Default: now.",
        ),
    ] = None,
) -> None:
    """Publish an event. The server signs it, and the next poll delivers it."""
    given: dict[str, Any] = {
        "client_id": None if client_id is None else client_of(call, client_id),
        "all_subscribers": all_subscribers or None,
        "sub": sub,
        "sub_id": None if sub_id is None else json_object(sub_id, "--sub-id"),
        "txn": txn,
        "toe": toe,
    }
    given = {field: value for field, value in given.items() if value is not None}
    published = call.client.events.publish(events=json_object(events, "EVENTS"), **given)
    # One token for a named client is in `jti`.
    jtis = [published["jti"]] if "jti" in published else published["jtis"]
    if call.is_json:
        typer.echo(msgspec.json.encode({"jtis": jtis}).decode())
    elif jtis:
        typer.echo("\n".join(jtis))
    else:
        typer.echo("No client has subscribed to these event types: nothing was published.")


@EVENT.runs("listen")
def listen(call: Call, client_id: ClientOption = None) -> None:
    """Follow events live: one line for each event and each change of its status, until Ctrl-C."""
    client_id = None if client_id is None else client_of(call, client_id)
    known = {item["jti"]: item["status"] for item in _newest(call, client_id)}
    typer.echo("Listening for events. Ctrl-C ends it.", err=True)
    try:
        while True:
            time.sleep(LISTEN_SECONDS)
            found = _newest(call, client_id)
            for item in reversed(found):
                if known.get(item["jti"]) != item["status"]:
                    known[item["jti"]] = item["status"]
                    _print_event(call, item)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _newest(call: Call, client_id: str | None) -> list[Any]:
    return list(call.client.events.list_page(client_id=client_id, limit=NEWEST)["items"])


def _print_event(call: Call, item: Any) -> None:
    if call.is_json:
        typer.echo(msgspec.json.encode(normalised(item)).decode())
        return
    value = normalised(item)
    line = (value["created_at"], value["jti"], value["client_id"], value["status"], ", ".join(value["event_types"]))
    typer.echo("\t".join(map(printable, line)))


@EVENT.lists(
    {
        "client": identity("client_id"),
        "name": "name",
        "waiting": "waiting",
        "delivered": "delivered",
        "errored": "errored",
        "oldest": when("oldest_at"),
        "last poll": when("last_poll_at"),
        "": Column(lambda client: "suspended" if client["is_suspended"] else ""),
    },
    empty="No clients.",
    name="status",
)
def statuses(call: Call) -> Page:
    """Show the event counts of each client: waiting, delivered but not acknowledged, and errored."""
    return call.page(call.client.events.statuses_page)


@EVENT.shows(name="errors")
def errors(call: Call, client: ClientArgument) -> Item:
    """Show the errors of a client: the reasons that it gave, and the problems of its push. See also `client why`."""
    return dict(call.client.events.status(client_of(call, client)))


@EVENT.does("release", "{count} of the events will be delivered again.")
def release(call: Call, jtis: JtisArgument = None, all_of: AllOfOption = None) -> Any:
    """Release errored events: they are delivered again, unchanged."""
    _check_jtis(jtis, all_of)
    if all_of is not None:
        return call.client.events.release_all(client_of(call, all_of))
    for jti in jtis or ():
        call.client.events.release(event_of(call, jti))
    return {"count": len(jtis or ())}


@EVENT.does("drop", "{count} of the events are dropped.", asks=True)
def drop(call: Call, jtis: JtisArgument = None, all_of: AllOfOption = None) -> Any:
    """Drop errored events: they are never delivered again."""
    _check_jtis(jtis, all_of)
    if all_of is not None:
        all_of = client_of(call, all_of)
        count = call.client.events.status(all_of)["errored"]
        call.confirm(f"This drops all {count} errored events of {all_of}: they are never delivered.")
        return call.client.events.drop_all(all_of)
    call.confirm(f"This drops {len(jtis or ())} events: they are never delivered.")
    for jti in jtis or ():
        call.client.events.drop(event_of(call, jti))
    return {"count": len(jtis or ())}


def _check_jtis(jtis: list[str] | None, all_of: str | None) -> None:
    if bool(jtis) == (all_of is not None):
        raise typer.BadParameter("give the jtis of the events, or --all-of CLIENT_ID")
