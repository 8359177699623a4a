"""The claims of an event token: what an event may be, and the two forms it is told in.

    Open Banking (OBEventNotification2)   iss iat jti sub aud txn toe events     the client's subscribed events together
    Shared Signals                        iss iat jti sub_id aud txn toe events  exactly one event, never a `sub`

Decides whether an event can be told at all, in which case every deviation is named, and writes the claims. Knows
neither who receives them nor who signs them: `iss` is the signer's to add, in front, so that whoever publishes needs no
settings. What is written once stays as it is: these bytes are what is signed.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput, MissingField
from restante.web.ask import convert

RESOURCE_UPDATE = "urn:uk:org:openbanking:events:resource-update"
CONSENT_REVOKED = "urn:uk:org:openbanking:events:consent-authorization-revoked"
LINKED_ACCOUNT_UPDATE = "urn:uk:org:openbanking:events:account-access-consent-linked-account-update"

EVENTS_MAX = 16
EVENTS_BYTES_MAX = 64 * 1024
DEPTH_MAX = 16
URI_CHARACTERS_MAX = 2048
TXN_CHARACTERS_MAX = 128
# The last second that is written with four digits for the year.
SECONDS_MAX = 253_402_300_799
INTEGER_MAX = 2**63 - 1

# RFC 3986: a scheme, and after the colon only characters that a URI may have.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", re.ASCII)
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
    """OBEventSubject1: which resource it is about, and where to read it."""

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

# RFC 9493, and `complex` of Shared Signals, whose parts are subjects themselves.
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
class Event:
    """An event that was looked at: it can be told in every form it has the subject for."""

    events: Mapping[str, Any]
    txn: str
    toe: int
    sub: str | None
    sub_id: Mapping[str, Any] | None

    @property
    def subject(self) -> Mapping[str, Any]:
        """Whom it is about, for receivers of shared signals."""
        return self.sub_id if self.sub_id is not None else {"format": "uri", "uri": self.sub}


@dataclass(frozen=True, slots=True)
class Addressed:
    """For whom a token is, when it is made, and its name."""

    audience: str
    jti: str
    iat: int


def checked_event(
    events: Any, txn: str, toe: int, sub: str | None = None, sub_id: Mapping[str, Any] | None = None
) -> Event:
    """The event, or BadInput naming what cannot be told."""
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
    return Event(events, txn, toe, sub, sub_id)


def open_banking_claims(event: Event, types: list[str], to: Addressed) -> str:
    """OBEventNotification2 without its `iss`, with the events of these types."""
    return _written(
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


def shared_signals_claims(event: Event, event_type: str, to: Addressed) -> str:
    """A shared signal without its `iss`: one event, and the subject beside it."""
    return _written(
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
    """A subject identifier: its format is named, and has the members it needs."""
    if not isinstance(subject, Mapping):
        raise BadInput(field, "an object with a format")
    named = subject.get("format")
    if not isinstance(named, str) or not 1 <= len(named) <= 64 or not named.isprintable():
        raise BadInput(f"{field}.format", "the name of a subject identifier format")
    for member in _SUBJECT_MEMBERS.get(named, ()):
        if not isinstance(subject.get(member), str) or not subject[member]:
            raise BadInput(f"{field}.{member}", f"a text, the format {named} requires it")
    if named == "aliases":
        _check_aliases(subject.get("identifiers"), f"{field}.identifiers")
    if named == "complex":
        for member, part in subject.items():
            if member != "format":
                check_subject(part, f"{field}.{member}")


def check_json(value: Any, field: str, depth: int = 1) -> None:
    """Whatever JSON can say, and every reader reads the same: no NaN, no huge integer, no bottomless nesting."""
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
            for place, item in enumerate(value):
                check_json(item, f"{field}[{place}]", depth + 1)
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
        for place, link in enumerate(event.subject.rlk):
            check_uri(link.link, f"{field}.subject.http://openbanking.org.uk/rlk[{place}].link")


def _check_aliases(identifiers: Any, field: str) -> None:
    if not isinstance(identifiers, list | tuple) or not identifiers:
        raise BadInput(field, "at least one subject")
    for place, identifier in enumerate(identifiers):
        check_subject(identifier, f"{field}[{place}]")
        if identifier["format"] == "aliases":
            raise BadInput(f"{field}[{place}].format", "any other format, aliases are not nested")


def _check_text(text: str, field: str) -> None:
    # A lone surrogate is no character: it could not be written as UTF-8. A NUL is not taken by every reader.
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput(field, "a text without NUL and without halves of characters")


def _is_uri(text: str) -> bool:
    return bool(_URI.fullmatch(text)) and (
        bool(_WITH_HOST.fullmatch(text)) or not text.lower().startswith(("http:", "https:"))
    )


def is_event_type(name: str) -> bool:
    """Whether it is a namespaced name: a URI."""
    is_urn = name.lower().startswith("urn:")
    return len(name) <= URI_CHARACTERS_MAX and _is_uri(name) and (not is_urn or bool(_URN.fullmatch(name)))


def _written(claims: Mapping[str, Any]) -> str:
    return _encoder.encode(claims).decode()
