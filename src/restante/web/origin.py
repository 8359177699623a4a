"""The address of a request's sender, and its user agent.

    sender ── 203.0.113.9 ──▶ proxy 10.0.0.2 ── 10.0.0.2 ──▶ proxy 10.0.0.1 ── 10.0.0.1 ──▶ server
                  X-Forwarded-For: <as the sender wrote it>, 203.0.113.9, 10.0.0.2

Each proxy appends the address that it saw. The header is read from its end: addresses of trusted proxies are passed
over, and the first other address is the sender's. All before it was written by the sender and is ignored.

Invariant: a request that does not come from a trusted proxy has the address of its connection, whatever it contains.
A header that cannot be read gives the address of the last trusted proxy, so it never opens a fresh limit.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Literal

from starlette.requests import Request

TEXT_LENGTH_MAX = 255

ForwardedHeader = Literal["none", "x-forwarded-for", "forwarded"]

_QUOTED = r'"(?:[^"\\]|\\.)*"'
# RFC 7239: elements with commas between them, each with pairs and semicolons between those.
_ELEMENT = re.compile(rf'(?:[^",]|{_QUOTED})*')
_PAIR = re.compile(rf"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([!#$%&'*+.^_`|~0-9A-Za-z-]+|{_QUOTED})\s*(?:;|$)")
_ESCAPE = re.compile(r"\\(.)")
# IPv6 in brackets, or anything without a colon; then a port.
_NODE = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::[0-9A-Za-z._-]+)?")


def peer_address_of(request: Request) -> str:
    """The address of the connection: that of the last proxy, if there is one."""
    return request.client.host if request.client else ""


class Senders:
    """`is_trusted`: whether an address is that of a proxy whose header counts."""

    def __init__(self, is_trusted: Callable[[str], bool] = lambda _: False, header: ForwardedHeader = "none") -> None:
        self._is_trusted = is_trusted
        self._header = header

    def address_of(self, request: Request) -> str:
        address = peer_address_of(request)
        if self._header == "none" or not self._is_trusted(address):
            return address
        text = ",".join(request.headers.getlist(self._header))
        hops = _hops(text) if self._header == "x-forwarded-for" else _forwarded_hops(text)
        for hop in hops:
            parsed = _parse_node(hop)
            if parsed is None:
                return address
            address = parsed
            if not self._is_trusted(address):
                return address
        return address


DIRECT = Senders()


def _hops(text: str) -> Iterator[str]:
    """The nodes of `X-Forwarded-For`, the last one first."""
    return (part.strip() for part in reversed(text.split(",")) if part.strip())


def _forwarded_hops(text: str) -> Iterator[str]:
    """The `for` nodes of `Forwarded`, the last one first; one that is missing or malformed is an empty text."""
    elements, place = [], 0
    while place <= len(text):
        match = _ELEMENT.match(text, place)
        end = match.end() if match else place
        if end < len(text) and text[end] != ",":
            # A quotation mark without its partner: the sender may have opened it, to hide what the proxy appended.
            return iter([""])
        elements.append(text[place:end])
        place = end + 1
    return (_for_node(element) for element in reversed(elements) if element.strip())


def _for_node(element: str) -> str:
    place, node = 0, ""
    while place < len(element):
        match = _PAIR.match(element, place)
        if match is None:
            return ""
        name, value = match.groups()
        if name.lower() == "for":
            node = _ESCAPE.sub(r"\1", value[1:-1]) if value.startswith('"') else value
        place = match.end()
    return node


def _parse_node(text: str) -> str | None:
    """The address of a node, without its port; None if it is not an IP address: `unknown`, `_hidden` or nonsense."""
    match = _NODE.fullmatch(text)
    try:
        return str(ipaddress.ip_address(text if match is None else match[1] or match[2]))
    except ValueError:
        return None


def user_agent_of(request: Request) -> str:
    """The User-Agent header, without control characters and bounded in length, safe to store and show."""
    user_agent = request.headers.get("user-agent", "")
    return "".join(character for character in user_agent if character.isprintable())[:TEXT_LENGTH_MAX]
