"""What values the settings of TLS and of access to event polling may have, beside plain ones."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from restante.server.setting_kinds import Explained, Folder
from restante.web.peer import Network


class Networks(tuple[Network, ...]):
    """Networks, written with commas between them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(str(each) for each in self)


@dataclass(frozen=True, slots=True)
class File:
    """A file that is read when it is used: whether it is there, and what it holds, is seen then."""

    expected: str = "the path of a file"

    def read(self, raw: object, /) -> Path:
        return Folder().read(raw)


@dataclass(frozen=True, slots=True)
class Addresses:
    expected: str = "addresses or networks, for example 127.0.0.1, 10.0.0.0/8"

    def read(self, raw: object, /) -> Networks:
        """From TOML a list, from anywhere else the text with commas between them."""
        if isinstance(raw, Networks):
            return raw
        if not isinstance(raw, str | list | tuple):
            raise ValueError
        listed = raw.split(",") if isinstance(raw, str) else [str(each) for each in raw]
        return Networks(_network(each.strip()) for each in listed if each.strip())


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise Explained(str(error)) from None
