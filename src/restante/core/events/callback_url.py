"""Decides which callback URLs a receiver may register: https, a host, and nothing that two parsers read differently.

The module decides about the text alone. The host is resolved elsewhere, and `addresses` checks the result.
"""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address

from restante.core.events.addresses import is_host

LENGTH_MAX = 2048
CALLBACK_URL_EXPECTED = (
    "an https address with a host name, at most 2048 printable ASCII characters, without user, password or fragment"
)

# Parsed here, not by a library: the request is built from exactly these parts, so no second parser can disagree.
_URL = re.compile(
    r"https://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?(?P<target>[/?][!-~]*)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class CallbackUrl:
    host: str  # lower case; an IPv6 address without brackets
    port: int
    target: str  # path and query, as in the request line

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


def parse_callback_url(text: str) -> CallbackUrl:
    """Split the URL into its parts; raise ValueError if it is not an acceptable URL."""
    match = _URL.fullmatch(text) if len(text) <= LENGTH_MAX else None
    if match is None or "#" in text or "\\" in text:
        raise ValueError(f"expected {CALLBACK_URL_EXPECTED}")
    port = int(match["port"] or 443)
    if not 1 <= port <= 65535:
        raise ValueError("expected a port from 1 to 65535")
    target = match["target"] or "/"
    return CallbackUrl(_host(match["host"]), port, target if target.startswith("/") else f"/{target}")


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return str(IPv6Address(text[1:-1]))
        except AddressValueError:
            raise ValueError("expected an IPv6 address between the brackets") from None
    host = text.lower().removesuffix(".")
    if not is_host(host):
        raise ValueError("expected a host name")
    return host
