"""`restante event`, `restante event-key` and `restante stream`."""

import sys
import time
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.events.clients import ALGORITHMS, ClientArgument
from restante.cli.output import Column, Columns, identity, joined, when
from restante.cli.remote.arguments import CLIENTS, choice, completed, full_id, ids_and_names, json_object
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import normalised
from restante.events.publishing.listing import STATUSES

EVENT = Noun("Events for clients.")
EVENT_KEY = Noun("The keys that sign event tokens.")
STREAM = Noun("Streams of Shared Signals.")
event_app, event_key_app, stream_app = EVENT.app, EVENT_KEY.app, STREAM.app

LISTEN_SECONDS = 1.0
NEWEST = 500
STREAMS = completed(lambda client: ids_and_names(client.streams.list(), "stream_id", "client_id"))
ClientOption = Annotated[
    str | None, typer.Option("--client", metavar="CLIENT_ID", help="Only for this client.", autocompletion=CLIENTS)
]
JtiArgument = Annotated[str, typer.Argument(metavar="JTI", help="The event's jti, or its beginning.")]
JtisArgument = Annotated[list[str] | None, typer.Argument(metavar="[JTI]...", help="The events' jtis.")]
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


@EVENT.lists(COLUMNS, empty="No events.", has_since=True)
def list_events(
    call: Call,
    client_id: ClientOption = None,
    status: Annotated[str | None, choice("--status", STATUSES, "Only in this state.")] = None,
    txn: Annotated[str | None, typer.Option("--txn", metavar="ID", help="Only of this transaction.")] = None,
) -> Page:
    """List events, newest first."""
    return call.page(call.client.events.list_page, client_id=client_id, status=status, txn=txn)


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
        int | None, typer.Option("--toe", metavar="SECONDS", help="The time of the event. Default: now.")
    ] = None,
) -> None:
    """Publish an event. The server signs it, and the next poll delivers it."""
    given: dict[str, Any] = {
        "client_id": client_id,
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
        typer.echo("Nobody asked for such events: nothing was published.")


@EVENT.runs("listen")
def listen(call: Call, client_id: ClientOption = None) -> None:
    """Follow events live: one line for each event and each change of its status, until Ctrl-C."""
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
    typer.echo("\t".join(line))


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


@EVENT.shows(name="why")
def why(call: Call, client: ClientArgument) -> Item:
    """Show why a client has not got its events: counts, its reasons for errors, and problems of a push."""
    return dict(call.client.events.status(client))


@EVENT.does("release", "{count} of the events will be delivered again.")
def release(call: Call, jtis: JtisArgument = None, all_of: AllOfOption = None) -> Any:
    """Release errored events: they are delivered again, unchanged."""
    _check_jtis(jtis, all_of)
    if all_of is not None:
        return call.client.events.release_all(all_of)
    for jti in jtis or ():
        call.client.events.release(event_of(call, jti))
    return {"count": len(jtis or ())}


@EVENT.does("drop", "{count} of the events are dropped.", asks=True)
def drop(call: Call, jtis: JtisArgument = None, all_of: AllOfOption = None) -> Any:
    """Drop errored events: they are never delivered again."""
    _check_jtis(jtis, all_of)
    if all_of is not None:
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


def event_of(call: Call, jti: str) -> str:
    return full_id(jti, "jti", call.client.events.get, call.client.events.list())


@EVENT_KEY.lists(
    {
        "key": identity("kid"),
        "algorithm": "alg",
        "status": "status",
        "made": when("created_at"),
        "signs from": when("signs_from"),
        "published until": Column(lambda key: when("withdrawn_at").value(key) or when("published_until").value(key)),
    },
    empty="No keys yet: they are made when a server starts, and when a client with another algorithm is added.",
)
def list_keys(call: Call) -> Page:
    """List the keys, newest first: those that sign, will sign, or only verify older tokens."""
    return {"items": call.client.event_keys.list()["items"], "next": None}


@EVENT_KEY.does("rotate", "{kid} is published, and signs from {signs_from}.")
def rotate(
    call: Call,
    alg: Annotated[str | None, choice("--alg", ALGORITHMS, "The algorithm. Default: from the settings.")] = None,
) -> Any:
    """Publish a new key now. It signs after the lead time; the old key stays published for the overlap."""
    given: dict[str, Any] = {} if alg is None else {"alg": alg}
    return call.client.event_keys.rotate(**given)


@EVENT_KEY.does("withdraw", "{kid} is withdrawn. Undelivered tokens signed again: {signed_again}.", asks=True)
def withdraw(
    call: Call, kid: Annotated[str, typer.Argument(metavar="KEY", help="The key's name (kid), or its beginning.")]
) -> Any:
    """Withdraw a leaked key: it is no longer published, and another key signs."""
    found = [key["kid"] for key in call.client.event_keys.list()["items"] if key["kid"].startswith(kid)]
    name = found[0] if len(found) == 1 else kid
    call.confirm(f"This withdraws key {name}: clients can no longer verify tokens that it has signed.")
    return call.client.event_keys.withdraw(name)


@STREAM.lists(
    {
        "id": "id",
        "stream": identity("stream_id"),
        "client": "client_id",
        "status": "status",
        "reason": "reason",
        "events": joined("events_delivered"),
        "pushed to": "push_url",
    },
    empty="No streams.",
)
def list_streams(call: Call) -> Page:
    """List the streams of all clients."""
    return call.page(call.client.streams.list_page)


@STREAM.does("update", "Stream {stream_id} is {status}.")
def update(
    call: Call,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream's id.", autocompletion=STREAMS)],
    status: Annotated[str, choice("--status", ("enabled", "paused", "disabled"), "The new status.")],
    reason: Annotated[str | None, typer.Option("--reason", help="The reason, which the receiver is told.")] = None,
) -> Any:
    """Enable, pause or disable a stream."""
    given: dict[str, Any] = {"status": status, **({} if reason is None else {"reason": reason})}
    return call.client.streams.set_status(stream, **given)
