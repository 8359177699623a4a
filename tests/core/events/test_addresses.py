"""Allowed addresses: one address inside each special range, and the public addresses next to the range."""

import pytest

from restante.core.events.addresses import PUBLIC_ONLY, is_host, may_connect, parse_allowed

HOST = "receiver.example"

NOT_PUBLIC = {
    "this network": "0.0.0.0",
    "this network, inside": "0.1.2.3",
    "private ten": "10.0.0.1",
    "carrier-grade NAT": "100.64.0.1",
    "carrier-grade NAT, last": "100.127.255.255",
    "loopback": "127.0.0.1",
    "loopback, last": "127.255.255.255",
    "link-local": "169.254.169.254",
    "private 172, first": "172.16.0.0",
    "private 172, last": "172.31.255.255",
    "protocol assignments": "192.0.0.8",
    "documentation 1": "192.0.2.1",
    "6to4 relay": "192.88.99.1",
    "private 192": "192.168.255.255",
    "benchmarks": "198.19.255.255",
    "documentation 2": "198.51.100.7",
    "documentation 3": "203.0.113.7",
    "multicast": "224.0.0.1",
    "multicast, last": "239.255.255.255",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "v6 unspecified": "::",
    "v6 loopback": "::1",
    "v6 mapped loopback": "::ffff:127.0.0.1",
    "v6 mapped private": "::ffff:10.1.2.3",
    "v6 mapped link-local": "::ffff:a9fe:a9fe",
    "v6 compatible": "::7f00:1",
    "NAT64 of loopback": "64:ff9b::7f00:1",
    "NAT64 of private": "64:ff9b::10.0.0.1",
    "local-use NAT64": "64:ff9b:1::8.8.8.8",
    "discard": "100::1",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "v6 benchmarks": "2001:2::1",
    "ORCHID": "2001:20::1",
    "v6 documentation": "2001:db8::1",
    "6to4": "2002:7f00:1::1",
    "v6 new documentation": "3fff::1",
    "segment routing": "5f00::1",
    "unique local": "fd00::1",
    "v6 link-local": "fe80::1",
    "v6 link-local with its zone": "fe80::1%eth0",
    "a zone on a public address": "2606:4700::1%1",
    "site-local": "fec0::1",
    "v6 multicast": "ff02::1",
    "never allocated": "4000::1",
}

PUBLIC = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2001:200::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
]


@pytest.mark.parametrize("address", NOT_PUBLIC.values(), ids=NOT_PUBLIC)
def test_non_public_address_is_refused(address: str) -> None:
    assert not may_connect(HOST, address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_allowed(address: str) -> None:
    assert may_connect(HOST, address)


def test_only_addresses_in_allowed_network_are_allowed() -> None:
    allowed = parse_allowed(["10.1.0.0/16", "::1"])
    assert may_connect(HOST, "10.1.2.3", allowed)
    assert may_connect(HOST, "::ffff:10.1.2.3", allowed)
    assert may_connect(HOST, "::1", allowed)
    assert not may_connect(HOST, "10.2.0.1", allowed)
    assert not may_connect(HOST, "127.0.0.1", allowed)


def test_allowed_host_may_have_any_address() -> None:
    allowed = parse_allowed(["Hooks.Internal.example"])
    assert may_connect("hooks.internal.example", "10.1.2.3", allowed)
    assert not may_connect("other.internal.example", "10.1.2.3", allowed)


@pytest.mark.parametrize(
    "entry", ["10.1.2.3/16", "10.0.0.0/33", "not a host", "http://x", "", "-x", "a..b", "x.example."]
)
def test_entry_that_is_neither_network_nor_host_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a network"):
        parse_allowed([entry])


def test_allowed_targets_are_listed_as_text() -> None:
    assert str(PUBLIC_ONLY) == ""
    assert str(parse_allowed(["10.0.0.0/8", "b.example", "a.example"])) == "10.0.0.0/8, a.example, b.example"


@pytest.mark.parametrize(
    ("text", "is_valid"), [("a", True), ("a-b.c_d", True), ("A", False), ("a.", False), ("a" * 254, False)]
)
def test_host_name_syntax(text: str, is_valid: bool) -> None:
    assert is_host(text) is is_valid
