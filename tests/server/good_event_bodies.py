"""A good body for each route of event polling that takes one, for tests that make it wrong in one place."""

from collections.abc import Callable
from typing import Any

from tests.server.event_things import EventThings

EventBody = Callable[[EventThings], dict[str, Any]]

_BASES = ("", "/open-banking/v4.0")


def _poll(things: EventThings) -> dict[str, Any]:
    return {
        "maxEvents": 1,
        "returnImmediately": True,
        "ack": [things.jti],
        "setErrs": {"unknown": {"err": "jwtIss", "description": "Issuer is invalid"}},
    }


EVENT_BODIES: dict[tuple[str, str], list[EventBody]] = {
    **{("POST", f"{base}/events"): [_poll] for base in _BASES},
}
