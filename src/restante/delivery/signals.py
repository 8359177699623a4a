"""A signal: what a device is told. Small by contract; the device fetches the rest itself."""

from collections.abc import Callable
from typing import Any

import msgspec

from restante.core.errors import BadInput
from restante.database.connection import Connection

REF_BYTES_MAX = 4096
TYPE_CHARACTERS_MAX = 128

_encoder = msgspec.json.Encoder()


class Signal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    ts_ms: int
    ref: dict[str, Any]

    def payload(self) -> str:
        """The signal as JSON, exactly as the outbox keeps it and the device reads it."""
        return _encoder.encode(self).decode()


# How a change tells a device: by writing to the outbox, or, where so configured, straight to the log. Either way in
# the transaction of the change itself.
Emit = Callable[[Connection, int, Signal], None]


def checked_signal(type: str, ts_ms: int, ref: dict[str, Any]) -> Signal:
    """A signal from outside, or BadInput naming what is wrong with it."""
    if not 1 <= len(type) <= TYPE_CHARACTERS_MAX or not type.isprintable():
        raise BadInput("type", f"1 to {TYPE_CHARACTERS_MAX} printable characters")
    if not 0 <= ts_ms < 2**53:
        raise BadInput("ts_ms", "milliseconds since the epoch")
    if not _can_be_written(ref):
        raise BadInput("ref", f"at most {REF_BYTES_MAX} bytes of JSON")
    return Signal(type, ts_ms, ref)


def _can_be_written(ref: dict[str, Any]) -> bool:
    try:
        return len(_encoder.encode(ref)) <= REF_BYTES_MAX
    except UnicodeEncodeError:
        # Half a surrogate pair: no text, though Python has room for it.
        return False
