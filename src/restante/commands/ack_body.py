"""An ACK as collectors write it, and as it is read: their two spellings for one thing become one."""

from typing import Annotated, Any

import msgspec

from restante.commands.wire import NO_NUL, parse_iso
from restante.core.ack import STATUSES, Ack
from restante.core.errors import BadInput

TEXT_CHARACTERS_MAX = 4096
SNAPSHOT_BYTES_MAX = 64 * 1024
DEFER_SECONDS_MAX = 30 * 86_400

Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS_MAX, pattern=NO_NUL)]
Code = Annotated[str, msgspec.Meta(max_length=256, pattern=NO_NUL)]
ShortText = Annotated[str, msgspec.Meta(max_length=256)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
DeferSeconds = Annotated[int, msgspec.Meta(ge=0, le=DEFER_SECONDS_MAX)]

_encoder = msgspec.json.Encoder()


class Deferral(msgspec.Struct):
    """The part of an ACK's `params` that is read: when a deferred command is wanted again."""

    defer_until: ShortText | None = None
    retry_after_sec: DeferSeconds | None = None


class AckBody(msgspec.Struct):
    """Fields that are not known pass: collectors in the field send more."""

    status: ShortText
    result_code: Whole | Code | None = None
    message: Text | None = None
    result_message: Text | None = None
    executed_at: ShortText | None = None
    before_snapshot: dict[str, Any] | None = None
    after_snapshot: dict[str, Any] | None = None
    nonce: ShortText | None = None
    ack_nonce: ShortText | None = None
    attempt: Whole | None = None
    signature: ShortText | None = None
    params: Deferral | None = None
    defer_until: ShortText | None = None
    retry_after_sec: DeferSeconds | None = None


class ExtendBody(msgspec.Struct, forbid_unknown_fields=True):
    lease_seconds: Annotated[int, msgspec.Meta(ge=1, le=3600)]
    nonce: ShortText | None = None


class ReadAck(msgspec.Struct, frozen=True):
    """An ACK that says nothing impossible. `signed_body` is its text where it carries a signature."""

    ack: Ack
    executed_at_ms: int | None = None
    before_snapshot: str | None = None
    after_snapshot: str | None = None
    signed_body: bytes | None = None


def read_ack(body: AckBody, raw: bytes) -> ReadAck:
    status = STATUSES.get(body.status)
    if status is None:
        raise BadInput("status", f"one of {', '.join(STATUSES)}")
    params = body.params or Deferral()
    until = body.defer_until if params.defer_until is None else params.defer_until
    ack = Ack(
        status=status,
        result_code="" if body.result_code is None else str(body.result_code),
        message=_either(body.message, body.result_message) or "",
        nonce=_either(body.nonce, body.ack_nonce),
        attempt=body.attempt,
        defer_until_ms=None if until is None else parse_iso(until, "defer_until"),
        defer_seconds=body.retry_after_sec if params.retry_after_sec is None else params.retry_after_sec,
    )
    return ReadAck(
        ack,
        None if body.executed_at is None else parse_iso(body.executed_at, "executed_at"),
        _snapshot(body.before_snapshot, "before_snapshot"),
        _snapshot(body.after_snapshot, "after_snapshot"),
        None if body.signature is None else raw,
    )


def _either(first: str | None, second: str | None) -> str | None:
    return second if first is None else first


def _snapshot(value: dict[str, Any] | None, field: str) -> str | None:
    if value is None:
        return None
    text = _encoder.encode(value)
    if len(text) > SNAPSHOT_BYTES_MAX:
        raise BadInput(field, f"at most {SNAPSHOT_BYTES_MAX} bytes of JSON")
    return text.decode()
