"""Operators' requests to publish: checked, carried out in one transaction, once for an idempotency key."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.database.connection import Connection
from restante.events.claims import SECONDS_MAX, check_json
from restante.events.publishing import EventWish, Publisher, publish
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


def carry_out(conn: Connection, body: PublishBody, by: Publisher, key: str | None) -> Answered:
    # What cannot be written again could not be compared either.
    check_json(body.events, "events")
    check_json(body.sub_id, "sub_id")
    asked = Asked(by.actor, key, _PURPOSE + _encoder.encode(body))
    return idempotency.once(conn, asked, lambda: _encoder.encode(_published(conn, body, by)))


def _published(conn: Connection, body: PublishBody, by: Publisher) -> Published:
    jtis = publish(conn, body.wish(), by)
    if body.client_id is not None and len(jtis) == 1:
        return Published(jti=jtis[0])
    return Published(jtis=jtis)
