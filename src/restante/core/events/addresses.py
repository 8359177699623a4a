"""Decides which IP addresses the server may connect to when a client chose the host (SSRF protection).

Public addresses are allowed, and networks and hosts that the operator listed. The module decides about an address that
is already resolved; it does not resolve names and does not know the purpose of the connection.

Invariants:
- An address that embeds another one (IPv4-mapped IPv6, NAT64) is checked by the embedded address.
- An address that is not known to be public is refused.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

# The IANA special-purpose registry, listed here because the standard library's list differs between Python versions.
_NOT_PUBLIC_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; cloud metadata services hand out credentials here
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# All public IPv6 addresses are allocated from this range, except the special ranges below.
_PUBLIC_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: embeds an IPv4 address that the sender chooses
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")


@dataclass(frozen=True, slots=True)
class AllowedTargets:
    """Targets that are allowed although they are not public: networks, and host names with any address."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return ", ".join([*map(str, self.networks), *sorted(self.hosts)])


PUBLIC_ONLY = AllowedTargets()


def parse_allowed(entries: list[str]) -> AllowedTargets:
    """Parse networks (`10.1.0.0/16`), addresses and host names; raise ValueError for an entry that is none of them."""
    networks: list[Network] = []
    hosts: set[str] = set()
    for entry in entries:
        try:
            networks.append(ip_network(entry))
        except ValueError:
            if "/" in entry or ":" in entry or not is_host(entry.lower()):
                raise ValueError(f"{entry!r} is neither a network, nor an address, nor a host name") from None
            hosts.add(entry.lower())
    return AllowedTargets(tuple(networks), frozenset(hosts))


def is_host(text: str) -> bool:
    """Return whether the text is a host name in lookup form: ASCII, lower case, no trailing dot."""
    return _HOST.fullmatch(text) is not None


def may_connect(host: str, address: str, allowed: AllowedTargets = PUBLIC_ONLY) -> bool:
    """Return whether the server may connect to `address`, one of the addresses that `host` resolved to."""
    if host in allowed.hosts:
        return True
    # A zone id selects a network interface of this machine.
    if "%" in address:
        return False
    effective = effective_address(ip_address(address))
    if any(effective in network for network in allowed.networks if network.version == effective.version):
        return True
    if isinstance(effective, IPv4Address):
        return not any(effective in network for network in _NOT_PUBLIC_V4)
    return effective in _PUBLIC_V6 and not any(effective in network for network in _NOT_PUBLIC_V6)


def effective_address(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address that a packet to `address` finally reaches."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
