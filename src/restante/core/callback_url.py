"""The address of a receiver of ours, as it may be written: https, a host, and nothing that could be read in two ways.

Decides about the text alone. Where the host leads is looked up elsewhere, and judged by `addresses`.
"""

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

from restante.core.addresses import is_host

LENGTH_MAX = 2048
EXPECTED = (
    "an https address with a host name, at most 2048 printable ASCII characters, without user, password or fragment"
)

# Read by us and not by a library: what we send is made of these very parts, so that nobody else can read them
# differently.
_URL = re.compile(
    r"https://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?(?P<target>[/?][!-~]*)?",
    re.IGNORECASE | re.ASCII,
)


class CallbackUrl(NamedTuple):
    host: str  # lower-case, an IPv6 address without its brackets
    port: int
    target: str  # path and query, as a request names them

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


def parse_callback_url(text: str) -> CallbackUrl:
    """The parts of the address; ValueError if it is not one."""
    found = _URL.fullmatch(text) if len(text) <= LENGTH_MAX else None
    if found is None or "#" in text or "\\" in text:
        raise ValueError(f"expected {EXPECTED}")
    port = int(found["port"] or 443)
    if not 1 <= port <= 65535:
        raise ValueError("expected a port from 1 to 65535")
    target = found["target"] or "/"
    return CallbackUrl(_host(found["host"]), port, target if target.startswith("/") else f"/{target}")


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
