"""What values the settings of pushing and of shared signals may have, beside plain ones."""

from dataclasses import dataclass

from restante.core.addresses import Allowed, parse_allowed
from restante.events.claims import is_event_type
from restante.server.setting_kinds import Explained


class EventTypeNames(tuple[str, ...]):
    """Event types, written with commas between them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(self)


def _listed(raw: object) -> list[str]:
    """From TOML a list, from anywhere else the text with commas between them."""
    if not isinstance(raw, str | list | tuple):
        raise ValueError
    entries = raw.split(",") if isinstance(raw, str) else [str(each) for each in raw]
    return [entry.strip() for entry in entries if entry.strip()]


@dataclass(frozen=True, slots=True)
class Destinations:
    expected: str = "networks, addresses or host names, for example 10.1.0.0/16, hooks.internal.example"

    def read(self, raw: object, /) -> Allowed:
        if isinstance(raw, Allowed):
            return raw
        entries = _listed(raw)
        try:
            return parse_allowed(entries)
        except ValueError as error:
            raise Explained(str(error)) from None


@dataclass(frozen=True, slots=True)
class EventTypes:
    expected: str = "event types, each a URI, with commas between them"

    def read(self, raw: object, /) -> EventTypeNames:
        names = EventTypeNames(dict.fromkeys(_listed(raw)))
        for name in names:
            if not is_event_type(name):
                raise Explained(f"{name!r} is not a URI, urn:… or https://…")
        return names
