import ipaddress
from typing import Any

import pytest
from starlette.requests import Request

from restante.identity.client_certificates import from_der
from restante.web.peer import EXTENSION, Peers
from tests.pki import pki

PROXIES = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]


def request(address: str | None, der: bytes | None = None, *headers: bytes) -> Request:
    scope: dict[str, Any] = {"type": "http", "headers": [(b"client-cert", value) for value in headers]}
    scope["client"] = None if address is None else (address, 1)
    if der is not None:
        scope["extensions"] = {EXTENSION: {"der": der}}
    return Request(scope)


def test_the_connections_own_certificate() -> None:
    assert Peers().of_request(request("192.0.2.1", pki().tpp.der)) == from_der(pki().tpp.der)
    assert Peers().of_request(request("192.0.2.1")) is None
    assert Peers().of_request(request(None)) is None


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"])
def test_from_a_trusted_proxy_the_header_counts_and_its_own_certificate_does_not(address: str) -> None:
    peers, header = Peers(PROXIES), pki().tpp.header.encode()
    assert peers.of_request(request(address, None, header)) == from_der(pki().tpp.der)
    assert peers.of_request(request(address, pki().other_tpp.der, header)) == from_der(pki().tpp.der)
    assert peers.of_request(request(address, pki().other_tpp.der)) is None


@pytest.mark.parametrize("address", ["192.0.2.1", "::1", "nonsense", "", None])
def test_from_anybody_else_the_header_is_not_there(address: str | None) -> None:
    peers, header = Peers(PROXIES), pki().tpp.header.encode()
    assert peers.of_request(request(address, None, header)) is None
    assert peers.of_request(request(address, pki().other_tpp.der, header)) == from_der(pki().other_tpp.der)


def test_without_proxies_nobody_is_trusted() -> None:
    assert Peers().of_request(request("10.1.2.3", None, pki().tpp.header.encode())) is None
    assert not Peers().is_trusted("127.0.0.1")


def test_two_headers_are_none() -> None:
    header = pki().tpp.header.encode()
    assert Peers(PROXIES).of_request(request("10.1.2.3", None, header, header)) is None
