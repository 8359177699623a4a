"""`restante event-key` and `restante stream`: the keys that sign event tokens, and streams of Shared Signals."""

from typing import Annotated, Any

import typer

from restante.cli.events.clients import ALGORITHMS
from restante.cli.output import Column, identity, joined, when
from restante.cli.remote import completion
from restante.cli.remote.arguments import one_with_prefix
from restante.cli.remote.noun import Call, Noun, Page
from restante.cli.remote.values import choice

EVENT_KEY = Noun("The keys that sign event tokens.")
STREAM = Noun("Streams of Shared Signals.")
event_key_app, stream_app = EVENT_KEY.app, STREAM.app


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
    call: Call,
    kid: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="The key's name (kid), or its beginning.", autocompletion=completion.EVENT_KEYS
        ),
    ],
) -> Any:
    """Withdraw a leaked key: it is no longer published, and another key signs."""
    name = one_with_prefix(kid, "key", [key["kid"] for key in call.client.event_keys.list()["items"]])
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
    stream: Annotated[
        str,
        typer.Argument(metavar="STREAM", help="The stream's id, or its beginning.", autocompletion=completion.STREAMS),
    ],
    status: Annotated[str, choice("--status", ("enabled", "paused", "disabled"), "The new status.")],
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason, which the receiver gets.")
    ] = None,
) -> Any:
    """Enable, pause or disable a stream."""
    given: dict[str, Any] = {"status": status, **({} if reason is None else {"reason": reason})}
    found = one_with_prefix(stream, "stream", [item["stream_id"] for item in call.client.streams.list()])
    return call.client.streams.set_status(found, **given)
