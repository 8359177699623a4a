"""The body of an ACK as collectors send it, and its parsed form, where alternative spellings become one."""

from typing import Annotated, Any

import msgspec

from restante.commands.errors import NO_NUL
from restante.core.commands.ack import DUPLICATE_CODE, DUPLICATE_MESSAGE, DUPLICATE_STATUS, STATUSES, Ack
from restante.core.errors import BadInput
from restante.core.iso_time import parse_iso

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
    """The part of an ACK's `params` that the server reads: when to dispatch a deferred command again."""

    defer_until: ShortText | None = None
    retry_after_sec: DeferSeconds | None = None


class AckBody(msgspec.Struct):
    """Unknown fields are ignored: collectors send more than the contract names."""

    status: ShortText
    result_code: Whole | Code | None = None
    message: Text | None = None
    result_message: Text | None = None
    executed_at: ShortText | None = None
    before_snapshot: dict[str, Any] | None = None
    after_snapshot: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
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


class ParsedAck(msgspec.Struct, frozen=True):
    """A valid ACK. `signed_body` is its raw body, if it has a signature."""

    ack: Ack
    executed_at_ms: int | None = None
    before_snapshot: str | None = None
    after_snapshot: str | None = None
    signed_body: bytes | None = None

    @property
    def snapshot_bytes(self) -> int:
        return len(self.before_snapshot or "") + len(self.after_snapshot or "")


def parse_ack(body: AckBody, raw: bytes) -> ParsedAck:
    status = STATUSES.get(body.status)
    if status is None:
        raise BadInput("status", f"one of {', '.join(STATUSES)}")
    params = body.params or Deferral()
    until = body.defer_until if params.defer_until is None else params.defer_until
    result_code = "" if body.result_code is None else str(body.result_code)
    message = _first(body.message, body.result_message) or ""
    ack = Ack(
        status=status,
        result_code=result_code,
        message=message,
        nonce=_first(body.nonce, body.ack_nonce),
        attempt=body.attempt,
        defer_until_ms=None if until is None else parse_iso(until, "defer_until"),
        defer_seconds=body.retry_after_sec if params.retry_after_sec is None else params.retry_after_sec,
        is_duplicate=(body.status, result_code, message) == (DUPLICATE_STATUS, DUPLICATE_CODE, DUPLICATE_MESSAGE),
    )
    return ParsedAck(
        ack,
        None if body.executed_at is None else parse_iso(body.executed_at, "executed_at"),
        _snapshot(body.before_snapshot, body.before, "before"),
        _snapshot(body.after_snapshot, body.after, "after"),
        None if body.signature is None else raw,
    )


def parse_ack_or_error(body: AckBody, raw: bytes) -> ParsedAck | BadInput:
    """The ACK, or the error that refuses it if the collector may acknowledge the command at all."""
    try:
        return parse_ack(body, raw)
    except BadInput as error:
        return error


def _first(first: str | None, second: str | None) -> str | None:
    return second if first is None else first


def _snapshot(value: dict[str, Any] | None, alias_value: dict[str, Any] | None, alias: str) -> str | None:
    """The snapshot, which older collectors send under the alias."""
    field = f"{alias}_snapshot"
    if value is None:
        value, field = alias_value, alias
    elif alias_value is not None and alias_value != value:
        raise BadInput(alias, f"either this or {field}, or both alike")
    if value is None:
        return None
    text = _encoder.encode(value)
    if len(text) > SNAPSHOT_BYTES_MAX:
        raise BadInput(field, f"at most {SNAPSHOT_BYTES_MAX} bytes of JSON")
    return text.decode()
