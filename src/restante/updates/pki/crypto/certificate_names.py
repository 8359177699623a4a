"""The names that a certificate may have: DNS names, wildcards in the leftmost label, and IP addresses.

Names are compared and stored in lower case. A name in another script is accepted only in its ASCII (punycode) form, so
that an operator reads exactly the name in the certificate.
"""

import ipaddress
import re

from restante.core.errors import BadInput

DNS_CHARACTERS_MAX = 253
NAMES_MAX = 100

_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)", re.ASCII)
_EXPECTED = "a DNS name (ASCII, a wildcard only as the first label) or an IP address"

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def as_ip_address(name: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    # A zone index names an interface of one machine; no certificate can contain it.
    return None if getattr(address, "scope_id", None) else address


def checked_name(name: str, field: str) -> str:
    """The name in the form that certificates contain; raises BadInput with the field."""
    address = as_ip_address(name)
    if address is not None:
        return str(address)
    lowered = name.lower() if name.isascii() else ""
    labels = lowered.removeprefix("*.").split(".")
    is_wildcard = lowered.startswith("*.")
    if (
        len(lowered) > DNS_CHARACTERS_MAX
        or not all(_LABEL.fullmatch(label) for label in labels)
        or labels[-1].isdecimal()
        or (is_wildcard and len(labels) < 2)
    ):
        raise BadInput(field, _EXPECTED)
    return lowered


def checked_names(domain_name: str, sans: list[str]) -> list[str]:
    """All names of a certificate, each once, the domain name first."""
    if len(sans) > NAMES_MAX:
        raise BadInput("sans", f"at most {NAMES_MAX} names")
    names = [checked_name(domain_name, "domain_name")]
    names += [checked_name(name, f"sans[{index}]") for index, name in enumerate(sans)]
    return list(dict.fromkeys(names))


def is_covered(name: str, certificate_names: list[str]) -> bool:
    """Whether a certificate with these names is valid for this name."""
    if name in certificate_names:
        return True
    _, _, parent = name.partition(".")
    return as_ip_address(name) is None and f"*.{parent}" in certificate_names
