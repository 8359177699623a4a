"""Operators' requests to publish: checked, carried out in one transaction, once for an idempotency key.

Requests that wait together are carried out together, by a few statements for all of them."""

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.hot import Failed, HotOperation
from restante.events.claims import SECONDS_MAX, check_json
from restante.events.publishing import EventWish, Publisher, PublishWish, publish_all
from restante.web import idempotency
from restante.web.idempotency import Answered, Asked

# Under the same key a request for something else must not pass for this one.
_PURPOSE = b"POST /admin/events "
_encoder = msgspec.json.Encoder()


class PublishBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An event for one client, or for all that asked for its types."""

    events: Annotated[
        dict[str, Any],
        Meta(
            description="The events by type, a URI each.",
            examples=[{"urn:example:events:account-closed": {"reason": "moved"}}],
        ),
    ]
    client_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    all_subscribers: bool = False
    sub: Annotated[str, Meta(description="The URI of what it is about.")] | None = None
    sub_id: (
        Annotated[
            dict[str, Any], Meta(description="Whom it is about, for receivers of shared signals; else made from `sub`.")
        ]
        | None
    ) = None
    txn: Annotated[str, Meta(description="The same for all that belongs together; else made.")] | None = None
    toe: (
        Annotated[int, Meta(ge=0, le=SECONDS_MAX, description="When it happened, in seconds since 1970; else now.")]
        | None
    ) = None

    def wish(self) -> EventWish:
        return EventWish(**msgspec.structs.asdict(self))


class Published(msgspec.Struct, frozen=True):
    """`jti` where one token is made for the one client that was named, else `jtis`; none if nobody asked for it."""

    jti: str | UnsetType = UNSET
    jtis: list[str] | UnsetType = UNSET


class PublishRequest(NamedTuple):
    """What is asked for, by whom, and under which idempotency key, if any."""

    body: PublishBody
    by: Publisher
    key: str | None = None


def carry_out(conn: Connection, requests: Sequence[PublishRequest]) -> list[Answered | Failed]:
    """What each is answered, as if they came one after another."""
    checked = [_checked(request) for request in requests]
    good = [place for place, each in enumerate(checked) if isinstance(each, Asked)]

    def publish(places: list[int]) -> list[bytes | Failed]:
        return _published(conn, [requests[good[place]] for place in places])

    asked = [each for each in checked if isinstance(each, Asked)]
    answers = iter(idempotency.once_each(conn, asked, publish))
    return [each if isinstance(each, Failed) else next(answers) for each in checked]


def _about(_request: PublishRequest) -> Hashable:
    """One thing for all: publishers take turns under names of inboxes, and a list has most of those anyway."""
    return "publishing"


# Made once: requests that wait together are carried out together.
PUBLISHING = HotOperation(carry_out, _about)


def _checked(request: PublishRequest) -> Asked | Failed:
    body, by, key = request
    try:
        # What cannot be written again could not be compared either.
        check_json(body.events, "events")
        check_json(body.sub_id, "sub_id")
    except BadInput as error:
        return Failed(error)
    return Asked(by.actor, key, b"" if key is None else _PURPOSE + _encoder.encode(body))


def _published(conn: Connection, requests: Sequence[PublishRequest]) -> list[bytes | Failed]:
    outcomes = publish_all(conn, [PublishWish(request.body.wish(), request.by) for request in requests])
    return [
        outcome if isinstance(outcome, Failed) else _answer(request.body, outcome)
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _answer(body: PublishBody, jtis: list[str]) -> bytes:
    is_one = body.client_id is not None and len(jtis) == 1
    return _encoder.encode(Published(jti=jtis[0]) if is_one else Published(jtis=jtis))
