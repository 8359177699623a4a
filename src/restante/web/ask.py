"""A request as a handler sees it: who calls, and path, query and body values that are what they should be.

Whatever is not raises BadInput naming the field, before anything is changed.
"""

import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from restante.core.errors import (
    BadInput,
    MissingField,
    NotFound,
    RestanteError,
    TooLarge,
    UnknownField,
    WrongMediaType,
)
from restante.identity.callers import Caller, ClientCaller, CollectorCaller, DeviceCaller, KeyHolder, Person

T = TypeVar("T")

BODY_BYTES_MAX = 1024 * 1024
INT64_MAX = 2**63 - 1
# As many as there are bodies that routes take.
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


class Ask:
    __slots__ = ("caller", "raw_body", "request")

    def __init__(self, request: Request, caller: Caller | None) -> None:
        self.request = request
        self.caller = caller
        # As it arrived, for who must verify it to the byte; empty where the handler takes no body.
        self.raw_body = b""

    @property
    def device(self) -> DeviceCaller:
        """The calling device, where the route admits devices only."""
        assert isinstance(self.caller, DeviceCaller)  # noqa: S101 — the gate admits nobody else
        return self.caller

    @property
    def collector(self) -> CollectorCaller:
        """The calling collector, where the route admits collectors only."""
        assert isinstance(self.caller, CollectorCaller)  # noqa: S101 — the gate admits nobody else
        return self.caller

    @property
    def client(self) -> ClientCaller:
        """The calling client, where the route admits clients only."""
        assert isinstance(self.caller, ClientCaller)  # noqa: S101 — the gate admits nobody else
        return self.caller

    @property
    def person(self) -> Person:
        """The person signed in, where the route admits people only."""
        assert isinstance(self.caller, Person)  # noqa: S101 — the gate admits nobody else
        return self.caller

    @property
    def actor(self) -> str:
        """Who is to be named in a record of the change."""
        match self.caller:
            case Person(email=email):
                return email
            case KeyHolder(name=name):
                return f"key:{name}"
            case DeviceCaller(device_id=device_id):
                return f"device:{device_id}"
            case CollectorCaller(device_id=device_id):
                return f"collector:{device_id}"
            case ClientCaller(client_id=client_id):
                return f"client:{client_id}"
            case _:
                return "anonymous"

    def path_id(self, name: str) -> int:
        text = self.request.path_params[name]
        if not _DIGITS.fullmatch(text):
            raise BadInput(name, "a whole number")
        # No row has such an id; the database could not even be asked.
        if len(text) > 19 or int(text) > INT64_MAX:
            raise NotFound()
        return int(text)

    def path_text(self, name: str) -> str:
        return str(self.request.path_params[name])

    def query_text(self, name: str) -> str | None:
        values = self.request.query_params.getlist(name)
        if len(values) > 1:
            raise BadInput(name, "at most one value")
        return values[0] if values else None

    def query_int(self, name: str, default: int, least: int, most: int) -> int:
        text = self.query_text(name)
        return default if text is None else parse_int(name, text, least, most)


def parse_int(name: str, text: str, least: int, most: int) -> int:
    if _DIGITS.fullmatch(text) and len(text) <= 19 and least <= int(text) <= most:
        return int(text)
    raise BadInput(name, f"a whole number from {least} to {most}")


async def read_body(request: Request, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """The whole body, refused as soon as it is known to be too large."""
    declared = request.headers.get("content-length", "")
    # Python refuses to read numbers of thousands of digits, which no body is as long as.
    if declared.isdecimal() and (len(declared) > 19 or int(declared) > bytes_max):
        raise TooLarge(f"the body is larger than {bytes_max} bytes")
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > bytes_max:
            raise TooLarge(f"the body is larger than {bytes_max} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise WrongMediaType()


def decode_json(body: bytes, into: type[T]) -> T:
    """The body as the type wants it; every deviation names its field."""
    try:
        decoder = _decoders.get(into)
        if decoder is None:
            decoder = _decoders[into] = msgspec.json.Decoder(into)
        decoded: T = decoder.decode(body)
        return decoded
    except msgspec.ValidationError as error:
        raise _as_bad_input(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("body", f"valid JSON ({error})") from None


def convert(value: Any, into: type[T], field: str) -> T:
    """A decoded value as the type wants it."""
    try:
        return msgspec.convert(value, type=into)
    except msgspec.ValidationError as error:
        raise _as_bad_input(error, field) from None


def _as_bad_input(error: msgspec.ValidationError, root: str = "body") -> RestanteError:
    what, _, where = str(error).partition(" - at `")
    # A wrong key is said to be "at `key` in `$.counts`".
    where = where.removeprefix("key` in `")
    field = where.rstrip("`").removeprefix("$").removeprefix(".")
    if root != "body":
        field = f"{root}.{field}" if field and not field.startswith("[") else root + field
    missing = re.fullmatch(r"Object missing required field `(.+)`", what)
    unknown = re.fullmatch(r"Object contains unknown field `(.+)`", what)
    prefix = f"{field}." if field else ""
    if missing:
        return MissingField(prefix + missing[1])
    if unknown:
        return UnknownField(prefix + unknown[1])
    known_values = re.fullmatch(r"Invalid (?:enum )?value (.+)", what)
    if known_values:
        return BadInput(field or root, f"one of the values it can have, not {known_values[1]}")
    return BadInput(field or root, what.removeprefix("Expected "))
