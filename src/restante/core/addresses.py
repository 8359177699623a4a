"""Which addresses of the internet we call, when somebody else names the host: public ones, and what is allowed beside.

Decides about an address that was looked up already; does not look up names, and knows nothing of why it is called.
Must always hold: an address that leads to another one inside of it (IPv4 in IPv6, translated by NAT64) is judged by the
one inside; whatever is not known to be public is refused.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

# Ranges of the IANA special-purpose registry, written down here: what the standard library knows of them differs
# between its versions.
_NOT_PUBLIC_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # behind a carrier's translation
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, where clouds tell machines their secrets
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
# Public addresses of IPv6 have all been given out of this; of it, these are something else.
_PUBLIC_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: leads to an IPv4 address of the sender's choice
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is called although it is not public: networks, and hosts whatever they resolve to."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return ", ".join([*map(str, self.networks), *sorted(self.hosts)])


NOTHING_MORE = Allowed()


def parse_allowed(entries: list[str]) -> Allowed:
    """Networks (`10.1.0.0/16`), addresses and host names; ValueError names the entry that is none of them."""
    networks: list[Network] = []
    hosts: set[str] = set()
    for entry in entries:
        try:
            networks.append(ip_network(entry))
        except ValueError:
            if "/" in entry or ":" in entry or not is_host(entry.lower()):
                raise ValueError(f"{entry!r} is neither a network, nor an address, nor a host name") from None
            hosts.add(entry.lower())
    return Allowed(tuple(networks), frozenset(hosts))


def is_host(text: str) -> bool:
    """Whether it is a host name as it is looked up: ASCII, lower-case, no dot at the end."""
    return _HOST.fullmatch(text) is not None


def may_be_called(host: str, address: str, allowed: Allowed = NOTHING_MORE) -> bool:
    """Whether a connection to this address, which the host resolved to, may be made."""
    if host in allowed.hosts:
        return True
    # A zone names an interface of this very machine.
    if "%" in address:
        return False
    judged = judged_by(ip_address(address))
    if any(judged in network for network in allowed.networks if network.version == judged.version):
        return True
    if isinstance(judged, IPv4Address):
        return not any(judged in network for network in _NOT_PUBLIC_V4)
    return judged in _PUBLIC_V6 and not any(judged in network for network in _NOT_PUBLIC_V6)


def judged_by(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The address that a packet to this one ends up at."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
