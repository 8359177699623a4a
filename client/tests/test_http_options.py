"""The option `http` of every client, in both flavours: what is sent, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from edge_script import SECRET as EDGE_SECRET
from event_script import SECRET as CLIENT_SECRET
from flavours import InLoop
from scripted_server import ScriptedServer

from restante_client import (
    BlockingCollectorClient,
    BlockingDeviceClient,
    BlockingEventReceiver,
    BlockingOperatorClient,
    CollectorClient,
    CollectorOptions,
    DeviceClient,
    DeviceOptions,
    EventReceiver,
    OperatorClient,
    ReceiverOptions,
)
from restante_client.errors import ResponseError

TOKEN = "secret-token"
HTTP: dict[str, Any] = {"verify": False}
# Makes a client with the option `http`, and a request of it.
Make = Callable[[str, Path, dict[str, Any]], Any]
Call = Callable[[Any], Any]


def device(kind: Any) -> Make:
    return lambda url, folder, http: kind(url, folder, DeviceOptions(http=http))


def collector(kind: Any) -> Make:
    return lambda url, folder, http: kind(url, TOKEN, folder, CollectorOptions(secrets=[EDGE_SECRET], http=http))


def receiver(kind: Any) -> Make:
    return lambda url, folder, http: kind(url, CLIENT_SECRET, folder, ReceiverOptions(http=http))


def operator(kind: Any) -> Make:
    return lambda url, _folder, http: kind(url, TOKEN, http=http)


CLIENTS: list[tuple[Make, Call]] = [
    (device(DeviceClient), lambda client: client.start_enrolment()),
    (device(BlockingDeviceClient), lambda client: client.start_enrolment()),
    (collector(CollectorClient), lambda client: client.poll()),
    (collector(BlockingCollectorClient), lambda client: client.poll()),
    (receiver(EventReceiver), lambda client: client.poll()),
    (receiver(BlockingEventReceiver), lambda client: client.poll()),
    (operator(OperatorClient), lambda client: client.request("GET", "/apiv1/devices")),
    (operator(BlockingOperatorClient), lambda client: client.request("GET", "/apiv1/devices")),
]
NAMES = [
    f"{kind} {flavour}" for kind in ("device", "collector", "receiver", "operator") for flavour in ("async", "sync")
]


@pytest.fixture(params=CLIENTS, ids=NAMES)
def call(
    request: Any, server: ScriptedServer, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> Iterator[Callable[[dict[str, Any]], dict[str, str]]]:
    """Sends one request with these options, and returns its headers in lower case."""
    make, send = request.param
    made: list[Any] = []

    def headers_sent(http: dict[str, Any]) -> dict[str, str]:
        client = InLoop(loop, make(server.url, tmp_path / "state", {**HTTP, **http}))
        made.append(client)
        with pytest.raises(ResponseError):
            send(client)
        return {name.lower(): value for name, value in server.requests[0].headers.items()}

    yield headers_sent
    for client in made:
        client.close()


Sent = Callable[[dict[str, Any]], "dict[str, str]"]


def test_headers_are_sent_and_replace_those_of_the_client(call: Sent) -> None:
    sent = call({"headers": {"x-gateway": "g1", "user-agent": "my-fleet/2"}})
    assert (sent["x-gateway"], sent["user-agent"]) == ("g1", "my-fleet/2")
    assert sent["accept"] == "application/json"


def test_cookies_are_sent(call: Sent) -> None:
    assert call({"cookies": {"route": "a", "tier": "b"}})["cookie"] == "route=a; tier=b"


def test_request_without_these_options_has_no_cookie(call: Sent) -> None:
    assert "cookie" not in call({})


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"timeout": 5}, "timeout: .*timeout_seconds"),
        ({"base_url": "http://x"}, "base_url: .*url"),
        ({"params": {"a": "b"}}, "params: "),
        ({"follow_redirects": True}, "follow_redirects: "),
    ],
)
def test_option_that_a_client_cannot_honour_is_refused(call: Sent, option: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^http: {expected}"):
        call(option)
