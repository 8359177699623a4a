"""Which addresses count as one sender in limits: an IPv4 address, or the IPv6 network of 64 bits that a user gets."""

import ipaddress

IPV6_PREFIX_BITS = 64
TEXT_LENGTH_MAX = 64


def address_group(address: str) -> str:
    """The group of a caller's address. A text that is no address is a group of its own."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:TEXT_LENGTH_MAX]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX_BITS), strict=False))
