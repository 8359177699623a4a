"""A signal: a small message to a device. It says what has changed; the device fetches the data itself."""

from collections.abc import Callable, Mapping
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
        """The signal as JSON, exactly as the outbox stores it and the device reads it."""
        return _encoder.encode(self).decode()


# Sends a signal in the transaction of the change that it describes: to the outbox or, if so configured, directly to the
# log.
Emit = Callable[[Connection, int, Signal], None]
# The same for several devices, one signal for each.
EmitAll = Callable[[Connection, Mapping[int, Signal]], None]


def check_signal(type: str, ts_ms: int, ref: dict[str, Any]) -> Signal:
    """Make a signal of untrusted values. BadInput names the field that is wrong."""
    if not 1 <= len(type) <= TYPE_CHARACTERS_MAX or not type.isprintable():
        raise BadInput("type", f"1 to {TYPE_CHARACTERS_MAX} printable characters")
    if not 0 <= ts_ms < 2**53:
        raise BadInput("ts_ms", "milliseconds since the epoch")
    if not _fits(ref):
        raise BadInput("ref", f"at most {REF_BYTES_MAX} bytes of JSON")
    return Signal(type, ts_ms, ref)


def _fits(ref: dict[str, Any]) -> bool:
    try:
        return len(_encoder.encode(ref)) <= REF_BYTES_MAX
    except UnicodeEncodeError:
        # Half a surrogate pair, which UTF-8 cannot encode.
        return False
