import ipaddress
from typing import Any

import pytest
from starlette.requests import Request

from restante.identity.clients.client_certificates import from_der
from restante.web.client_cert import EXTENSION, ClientCertificates
from tests.pki import pki

PROXIES = [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]


def request(address: str | None, der: bytes | None = None, *headers: bytes) -> Request:
    scope: dict[str, Any] = {"type": "http", "headers": [(b"client-cert", value) for value in headers]}
    scope["client"] = None if address is None else (address, 1)
    if der is not None:
        scope["extensions"] = {EXTENSION: {"der": der}}
    return Request(scope)


def test_certificate_of_connection_is_used() -> None:
    assert ClientCertificates().of_request(request("192.0.2.1", pki().tpp.der)) == from_der(pki().tpp.der)
    assert ClientCertificates().of_request(request("192.0.2.1")) is None
    assert ClientCertificates().of_request(request(None)) is None


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1"])
def test_trusted_proxys_header_replaces_its_own_certificate(address: str) -> None:
    client_certificates, header = ClientCertificates(PROXIES), pki().tpp.header.encode()
    assert client_certificates.of_request(request(address, None, header)) == from_der(pki().tpp.der)
    assert client_certificates.of_request(request(address, pki().other_tpp.der, header)) == from_der(pki().tpp.der)
    assert client_certificates.of_request(request(address, pki().other_tpp.der)) is None


@pytest.mark.parametrize("address", ["192.0.2.1", "::1", "nonsense", "", None])
def test_header_from_untrusted_address_is_ignored(address: str | None) -> None:
    client_certificates, header = ClientCertificates(PROXIES), pki().tpp.header.encode()
    assert client_certificates.of_request(request(address, None, header)) is None
    assert client_certificates.of_request(request(address, pki().other_tpp.der, header)) == from_der(
        pki().other_tpp.der
    )


def test_without_proxies_no_address_is_trusted() -> None:
    assert ClientCertificates().of_request(request("10.1.2.3", None, pki().tpp.header.encode())) is None
    assert not ClientCertificates().is_trusted("127.0.0.1")


def test_repeated_header_is_ignored() -> None:
    header = pki().tpp.header.encode()
    assert ClientCertificates(PROXIES).of_request(request("10.1.2.3", None, header, header)) is None
