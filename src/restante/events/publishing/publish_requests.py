"""Operators' requests to publish: checked, then run in one transaction, once for each idempotency key.

The writer batches requests that wait at the same time; a batch needs a few statements for all of its requests.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.writer.batching import BatchOperation, Failed
from restante.events.publishing.publishing import EventRequest, Publication, Publisher, publish_all
from restante.events.publishing.token_claims import SECONDS_MAX, check_json
from restante.identity import idempotency
from restante.identity.idempotency import IdempotentRequest, IdempotentResult

# Part of the idempotency fingerprint: the same key for another endpoint is another request.
_PURPOSE = b"POST /admin/events "
_encoder = msgspec.json.Encoder()


class PublishBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An event for one client, or for all clients that subscribed to its types."""

    events: Annotated[
        dict[str, Any],
        Meta(
            description="The events by type, a URI each.",
            examples=[{"urn:example:events:account-closed": {"reason": "moved"}}],
        ),
    ]
    client_id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    all_subscribers: bool = False
    sub: Annotated[str, Meta(description="The URI of the resource that the event is about.")] | None = None
    sub_id: (
        Annotated[
            dict[str, Any],
            Meta(description="The subject for Shared Signals receivers; made from `sub` if it is absent."),
        ]
        | None
    ) = None
    txn: (
        Annotated[str, Meta(description="The same for all events of one transaction; generated if it is absent.")]
        | None
    ) = None
    toe: (
        Annotated[
            int,
            Meta(
                ge=0, le=SECONDS_MAX, description="The time of the event, in seconds since 1970; now if it is absent."
            ),
        ]
        | None
    ) = None

    def event_request(self) -> EventRequest:
        return EventRequest(**msgspec.structs.asdict(self))


class PublishResponse(msgspec.Struct, frozen=True):
    """`jti` if the event named a client and needs one token, else `jtis`, empty if no client subscribed to it."""

    jti: str | UnsetType = UNSET
    jtis: list[str] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """A publish request, its caller, and its idempotency key, if it has one."""

    body: PublishBody
    by: Publisher
    key: str | None = None


def publish_batch(conn: Connection, requests: Sequence[PublishRequest]) -> list[IdempotentResult | Failed]:
    """Run the requests as if they came one after another; return one result for each."""
    checked = [_check(request) for request in requests]
    accepted = [index for index, each in enumerate(checked) if isinstance(each, IdempotentRequest)]

    def publish(indexes: list[int]) -> list[bytes | Failed]:
        return _publish(conn, [requests[accepted[index]] for index in indexes])

    idempotent = [each for each in checked if isinstance(each, IdempotentRequest)]
    results = iter(idempotency.run_each_once(conn, idempotent, publish))
    return [each if isinstance(each, Failed) else next(results) for each in checked]


def _batch_key(_request: PublishRequest) -> Hashable:
    """One key for all requests: publishing locks stripes of inboxes, and a batch locks most of them anyway."""
    return "publishing"


PUBLISHING = BatchOperation(publish_batch, _batch_key)


def _check(request: PublishRequest) -> IdempotentRequest | Failed:
    body, key = request.body, request.key
    try:
        # A value that JSON cannot encode has no fingerprint to compare.
        check_json(body.events, "events")
        check_json(body.sub_id, "sub_id")
    except BadInput as error:
        return Failed(error)
    return IdempotentRequest(request.by.actor, key, b"" if key is None else _PURPOSE + _encoder.encode(body))


def _publish(conn: Connection, requests: Sequence[PublishRequest]) -> list[bytes | Failed]:
    outcomes = publish_all(conn, [Publication(request.body.event_request(), request.by) for request in requests])
    return [
        outcome if isinstance(outcome, Failed) else _encode_response(request.body, outcome)
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _encode_response(body: PublishBody, jtis: list[str]) -> bytes:
    is_one = body.client_id is not None and len(jtis) == 1
    return _encoder.encode(PublishResponse(jti=jtis[0]) if is_one else PublishResponse(jtis=jtis))
