"""A request as a handler sees it: the caller, and checked values of path, query and body.

An invalid value raises BadInput with the name of the field, before anything is changed.
"""

from urllib.parse import parse_qsl

from starlette.requests import Request

from restante.core.decoding import DIGITS, INT64_MAX, parse_int
from restante.core.errors import BadInput, NotAllowed, NotFound, TooLarge, WrongMediaType
from restante.identity.callers import (
    ApiKeyCaller,
    Caller,
    ClientCaller,
    CollectorCaller,
    DeviceCaller,
    LocalAdministrator,
    Operator,
    Person,
)
from restante.identity.grants import ALL_IDS, AllowedIds, Grants
from restante.web.origin import DIRECT, Senders

FORM_TYPE = "application/x-www-form-urlencoded"


class ApiRequest:
    __slots__ = ("_senders", "allowed", "caller", "http", "raw_body")

    def __init__(
        self, http: Request, caller: Caller | None, allowed: AllowedIds = ALL_IDS, senders: Senders = DIRECT
    ) -> None:
        self.http = http
        self._senders = senders
        self.caller = caller
        # The resources of the route's area that the grants of a person or an API key open to this request.
        self.allowed = allowed
        # The bytes as sent, for handlers that verify a signature; empty if the handler takes no body.
        self.raw_body = b""

    @property
    def address(self) -> str:
        """The address of the sender, also behind a trusted proxy that names it."""
        return self._senders.address_of(self.http)

    @property
    def device(self) -> DeviceCaller:
        """The calling device, on routes for devices."""
        assert isinstance(self.caller, DeviceCaller)  # noqa: S101 — access control admits no other caller
        return self.caller

    @property
    def collector(self) -> CollectorCaller:
        """The calling collector, on routes for collectors."""
        assert isinstance(self.caller, CollectorCaller)  # noqa: S101 — access control admits no other caller
        return self.caller

    @property
    def client(self) -> ClientCaller:
        """The calling client, on routes for clients."""
        assert isinstance(self.caller, ClientCaller)  # noqa: S101 — access control admits no other caller
        return self.caller

    @property
    def person(self) -> Person:
        """The signed-in person, on routes for people."""
        assert isinstance(self.caller, Person)  # noqa: S101 — access control admits no other caller
        return self.caller

    @property
    def owner_id(self) -> int:
        """The user that the caller is or belongs to, on routes for a caller's own resources."""
        assert isinstance(self.caller, Person | ApiKeyCaller)  # noqa: S101 — access control admits no other caller
        assert self.caller.user_id is not None  # noqa: S101 — nor a key without a user
        return self.caller.user_id

    @property
    def grants(self) -> Grants:
        """The grants of the person, API key or local administrator, on routes for them."""
        assert isinstance(self.caller, Operator)  # noqa: S101 — access control admits no other caller
        return self.caller.grants

    def require_all(self, what: str) -> None:
        """Refuse a caller whose grants do not include the whole area: `what` concerns all of it."""
        if not self.allowed.are_all:
            raise NotAllowed(f"{what}: your grants are limited to {', '.join(self.grants.as_texts())}")

    @property
    def actor(self) -> str:
        """The name of the caller in audit records."""
        match self.caller:
            case Person(email=email):
                return email
            case ApiKeyCaller(name=name):
                return f"key:{name}"
            case LocalAdministrator(name=name):
                return f"local:{name}"
            case DeviceCaller(device_id=device_id):
                return f"device:{device_id}"
            case CollectorCaller(device_id=device_id):
                return f"collector:{device_id}"
            case ClientCaller(client_id=client_id):
                return f"client:{client_id}"
            case _:
                return "anonymous"

    @property
    def identities(self) -> tuple[str, ...]:
        """What the name of the caller stands for: the person or key itself, and the person who made the key."""
        match self.caller:
            case Person(user_id=user_id):
                return (f"person:{user_id}",)
            case ApiKeyCaller(key_id=key_id, made_by=None):
                return (f"key:{key_id}",)
            case ApiKeyCaller(key_id=key_id, made_by=made_by):
                return (f"key:{key_id}", f"person:{made_by}")
            case LocalAdministrator(name=name):
                return (f"local:{name}",)
            case _:
                return ()

    def path_id(self, name: str) -> int:
        text = self.http.path_params[name]
        if not DIGITS.fullmatch(text):
            raise BadInput(name, "a whole number")
        # No row has such an id, and the database cannot represent it.
        if len(text) > 19 or int(text) > INT64_MAX:
            raise NotFound()
        return int(text)

    def path_text(self, name: str) -> str:
        return str(self.http.path_params[name])

    def query_text(self, name: str) -> str | None:
        values = self.http.query_params.getlist(name)
        if len(values) > 1:
            raise BadInput(name, "at most one value")
        return values[0] if values else None

    def query_bool(self, name: str) -> bool | None:
        text = self.query_text(name)
        if text not in (None, "true", "false"):
            raise BadInput(name, "true or false")
        return None if text is None else text == "true"

    def query_int(self, name: str, default: int, least: int, most: int) -> int:
        text = self.query_text(name)
        return default if text is None else parse_int(name, text, least, most)


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Read the whole body; raise TooLarge as soon as it is known to be too large."""
    declared = request.headers.get("content-length", "")
    # int() refuses numbers of thousands of digits; any number this long is too large.
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


async def read_form_fields(request: Request, bytes_max: int, fields_max: int) -> list[tuple[str, str]]:
    """The fields of a form that a browser posts, in their order."""
    if media_type(request) != FORM_TYPE:
        raise WrongMediaType("the request body must be a form")
    raw = await read_body(request, bytes_max)
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=fields_max)
    except ValueError:
        raise BadInput("body", f"a form of at most {fields_max} fields") from None


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require_json(request: Request) -> None:
    if media_type(request) != "application/json":
        raise WrongMediaType()
