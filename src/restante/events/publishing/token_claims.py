"""Checks events and writes their token claims, in one of two forms.

    Open Banking (OBEventNotification2)   iss iat jti sub aud txn toe events     the client's subscribed events together
    Shared Signals                        iss iat jti sub_id aud txn toe events  exactly one event, never a `sub`

The module decides whether an event is valid, names the field that is not, and encodes the claims. It does not know
recipients or keys: the signer adds `iss` in front, so that publishing needs no settings. The encoded bytes never
change; they are the bytes that are signed.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.core.decoding import convert
from restante.core.errors import BadInput, MissingField

RESOURCE_UPDATE = "urn:uk:org:openbanking:events:resource-update"
CONSENT_REVOKED = "urn:uk:org:openbanking:events:consent-authorization-revoked"
LINKED_ACCOUNT_UPDATE = "urn:uk:org:openbanking:events:account-access-consent-linked-account-update"

EVENTS_MAX = 16
EVENTS_BYTES_MAX = 64 * 1024
DEPTH_MAX = 16
URI_CHARACTERS_MAX = 2048
SUBJECT_FORMAT_CHARACTERS_MAX = 64
TXN_CHARACTERS_MAX = 128
# The last second of the year 9999.
SECONDS_MAX = 253_402_300_799
INTEGER_MAX = 2**63 - 1

# RFC 3986: a scheme, a colon, and characters that a URI may contain. Also for the OpenAPI document.
URI_PATTERN = r"^[A-Za-z][A-Za-z0-9+.\-]*:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+$"
_URI = re.compile(URI_PATTERN, re.ASCII)
_URN = re.compile(r"urn:[a-z0-9][a-z0-9\-]{0,31}:.+", re.ASCII | re.IGNORECASE)
_WITH_HOST = re.compile(r"https?://[^/?#]+.*", re.IGNORECASE)

_encoder = msgspec.json.Encoder()

_Text10 = Annotated[str, Meta(min_length=1, max_length=10)]
_Text128 = Annotated[str, Meta(min_length=1, max_length=128)]
_Reason = Annotated[str, Meta(min_length=1, max_length=256)]
_SubjectType = Literal["http://openbanking.org.uk/rid_http://openbanking.org.uk/rty"]


class ResourceLink(msgspec.Struct, forbid_unknown_fields=True):
    version: _Text10
    link: str


class ResourceSubject(msgspec.Struct, forbid_unknown_fields=True):
    """OBEventSubject1: the resource, and where to read it."""

    subject_type: _SubjectType
    rid: _Text128 = msgspec.field(name="http://openbanking.org.uk/rid")
    rty: _Text128 = msgspec.field(name="http://openbanking.org.uk/rty")
    rlk: Annotated[list[ResourceLink], Meta(min_length=1, max_length=32)] = msgspec.field(
        name="http://openbanking.org.uk/rlk"
    )


class ResourceUpdate(msgspec.Struct, forbid_unknown_fields=True):
    subject: ResourceSubject


class ConsentRevoked(msgspec.Struct, forbid_unknown_fields=True):
    reason: _Reason | None = None
    subject: ResourceSubject | None = None


class LinkedAccountUpdate(msgspec.Struct, forbid_unknown_fields=True):
    subject: ResourceSubject
    reason: _Reason | None = None


_OPEN_BANKING_EVENTS: dict[str, type[ResourceUpdate | ConsentRevoked | LinkedAccountUpdate]] = {
    RESOURCE_UPDATE: ResourceUpdate,
    CONSENT_REVOKED: ConsentRevoked,
    LINKED_ACCOUNT_UPDATE: LinkedAccountUpdate,
}

# The required members of each format of RFC 9493. `aliases` and `complex` are checked by their own rules.
_SUBJECT_MEMBERS: dict[str, tuple[str, ...]] = {
    "account": ("uri",),
    "did": ("url",),
    "email": ("email",),
    "iss_sub": ("iss", "sub"),
    "opaque": ("id",),
    "phone_number": ("phone_number",),
    "uri": ("uri",),
}


@dataclass(frozen=True, slots=True)
class CheckedEvent:
    """An event that passed the checks. It can be encoded in each form whose subject it has."""

    events: Mapping[str, Any]
    txn: str
    toe: int
    sub: str | None
    sub_id: Mapping[str, Any] | None

    @property
    def subject(self) -> Mapping[str, Any]:
        """The subject for Shared Signals receivers."""
        return self.sub_id if self.sub_id is not None else {"format": "uri", "uri": self.sub}


@dataclass(frozen=True, slots=True)
class TokenEnvelope:
    """The token claims that differ between the recipients of one event."""

    audience: str
    jti: str
    iat: int


def checked_event(
    events: Any, txn: str, toe: int, sub: str | None = None, sub_id: Mapping[str, Any] | None = None
) -> CheckedEvent:
    """Check the event; raise BadInput for the first field that is not valid."""
    if sub is None and sub_id is None:
        raise MissingField("sub")
    if sub is not None:
        check_uri(sub, "sub")
    if sub_id is not None:
        check_json(sub_id, "sub_id")
        check_subject(sub_id, "sub_id")
    if not 1 <= len(txn) <= TXN_CHARACTERS_MAX or not txn.isprintable():
        raise BadInput("txn", f"1 to {TXN_CHARACTERS_MAX} printable characters")
    if isinstance(toe, bool) or not isinstance(toe, int) or not 0 <= toe <= SECONDS_MAX:
        raise BadInput("toe", f"a time in whole seconds since 1970, 0 to {SECONDS_MAX}")
    _check_events(events)
    return CheckedEvent(events, txn, toe, sub, sub_id)


def open_banking_claims(event: CheckedEvent, types: list[str], to: TokenEnvelope) -> str:
    """Encode an OBEventNotification2 without `iss`, with the events of these types."""
    return _encode(
        {
            "iat": to.iat,
            "jti": to.jti,
            "sub": event.sub,
            "aud": to.audience,
            "txn": event.txn,
            "toe": event.toe,
            "events": {name: event.events[name] for name in types},
        }
    )


def shared_signals_claims(event: CheckedEvent, event_type: str, to: TokenEnvelope) -> str:
    """Encode a Shared Signals event without `iss`: one event type and its subject."""
    return _encode(
        {
            "iat": to.iat,
            "jti": to.jti,
            "aud": to.audience,
            "sub_id": event.subject,
            "txn": event.txn,
            "toe": event.toe,
            "events": {event_type: event.events[event_type]},
        }
    )


def check_uri(text: Any, field: str) -> None:
    if not isinstance(text, str) or len(text) > URI_CHARACTERS_MAX or not _is_uri(text):
        raise BadInput(field, f"a URI of at most {URI_CHARACTERS_MAX} characters")


def check_subject(subject: Any, field: str) -> None:
    """Check that a subject identifier names its format and has the members that the format requires."""
    if not isinstance(subject, Mapping):
        raise BadInput(field, "an object with a format")
    name = subject.get("format")
    if not isinstance(name, str) or not 1 <= len(name) <= SUBJECT_FORMAT_CHARACTERS_MAX or not name.isprintable():
        raise BadInput(f"{field}.format", "the name of a subject identifier format")
    for member in _SUBJECT_MEMBERS.get(name, ()):
        if not isinstance(subject.get(member), str) or not subject[member]:
            raise BadInput(f"{field}.{member}", f"a text: the format {name} requires it")
    if name == "aliases":
        _check_aliases(subject.get("identifiers"), f"{field}.identifiers")
    if name == "complex":
        for member, part in subject.items():
            if member != "format":
                check_subject(part, f"{field}.{member}")


def check_json(value: Any, field: str, depth: int = 1) -> None:
    """Check that every JSON parser reads the value alike: no NaN, no integer beyond 64 bits, no deep nesting."""
    if depth > DEPTH_MAX:
        raise BadInput(field, f"at most {DEPTH_MAX} levels of nesting")
    match value:
        case None | bool():
            return
        case str():
            _check_text(value, field)
        case int():
            if not -INTEGER_MAX <= value <= INTEGER_MAX:
                raise BadInput(field, "a whole number of 64 bits")
        case float():
            if not math.isfinite(value):
                raise BadInput(field, "a number that is neither NaN nor infinite")
        case Mapping():
            for name, member in value.items():
                if not isinstance(name, str):
                    raise BadInput(field, "names that are texts")
                _check_text(name, field)
                check_json(member, f"{field}.{name}", depth + 1)
        case list() | tuple():
            for index, item in enumerate(value):
                check_json(item, f"{field}[{index}]", depth + 1)
        case _:
            raise BadInput(field, "a JSON value")


def _check_events(events: Any) -> None:
    if not isinstance(events, Mapping) or not events:
        raise BadInput("events", "an object with at least one event")
    if len(events) > EVENTS_MAX:
        raise BadInput("events", f"at most {EVENTS_MAX} events")
    check_json(events, "events")
    for name, members in events.items():
        field = f"events.{name}"
        if not is_event_type(name):
            raise BadInput(field, "an event type that is a URI, urn:… or https://…")
        if not isinstance(members, Mapping):
            raise BadInput(field, "an object")
        known = _OPEN_BANKING_EVENTS.get(name)
        if known is not None:
            _check_open_banking(convert(members, known, field), field)
    if len(_encoder.encode(events)) > EVENTS_BYTES_MAX:
        raise BadInput("events", f"at most {EVENTS_BYTES_MAX} bytes of JSON")


def _check_open_banking(event: ResourceUpdate | ConsentRevoked | LinkedAccountUpdate, field: str) -> None:
    if event.subject is not None:
        for index, link in enumerate(event.subject.rlk):
            check_uri(link.link, f"{field}.subject.http://openbanking.org.uk/rlk[{index}].link")


def _check_aliases(identifiers: Any, field: str) -> None:
    if not isinstance(identifiers, list | tuple) or not identifiers:
        raise BadInput(field, "at least one subject")
    for index, identifier in enumerate(identifiers):
        check_subject(identifier, f"{field}[{index}]")
        if identifier["format"] == "aliases":
            raise BadInput(f"{field}[{index}].format", "any other format: aliases cannot be nested")


def _check_text(text: str, field: str) -> None:
    # A lone surrogate cannot be encoded in UTF-8, and some readers do not accept a NUL.
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput(field, "a text without NUL and without lone surrogates")


def _is_uri(text: str) -> bool:
    return bool(_URI.fullmatch(text)) and (
        bool(_WITH_HOST.fullmatch(text)) or not text.lower().startswith(("http:", "https:"))
    )


def is_event_type(name: str) -> bool:
    """Return whether the name is a URI; a URN must also have a namespace."""
    is_urn = name.lower().startswith("urn:")
    return len(name) <= URI_CHARACTERS_MAX and _is_uri(name) and (not is_urn or bool(_URN.fullmatch(name)))


def _encode(claims: Mapping[str, Any]) -> str:
    return _encoder.encode(claims).decode()
