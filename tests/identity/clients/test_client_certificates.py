import base64
import hashlib
import time
from urllib.parse import quote

import pytest

from restante.identity.clients import client_certificates, subject_dn
from restante.identity.clients.client_certificates import from_der, from_header
from tests.pki import TPP_DN, pki


def test_certificate_has_thumbprint_subject_and_validity() -> None:
    der = pki().tpp.der
    found = from_der(der)
    assert found is not None
    assert found.thumbprint == base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")
    assert found.subject == subject_dn.canonical(TPP_DN)
    assert found.is_valid_at(time.time())
    assert not found.is_valid_at(time.time() + 40 * 86_400)
    assert not found.is_valid_at(time.time() - 86_400)


def test_expired_certificate_is_not_valid() -> None:
    found = from_der(pki().expired.der)
    assert found is not None
    assert not found.is_valid_at(time.time())


def test_other_bytes_are_no_certificate() -> None:
    assert from_der(b"") is None
    assert from_der(pki().tpp.der[:-1]) is None


def test_header_in_rfc_9440_form_is_read() -> None:
    header = pki().tpp.header.encode()
    assert from_header(header) == from_der(pki().tpp.der)
    assert from_header(b" " + header + b"\t") == from_der(pki().tpp.der)


def test_header_in_nginx_form_is_read() -> None:
    escaped = quote(pki().tpp.certificate.read_text(), safe="").encode()
    assert from_header(escaped) == from_der(pki().tpp.der)


@pytest.mark.parametrize(
    "name", ["empty", "bare", "open", "cut", "spaces", "two", "list", "unescaped", "chain", "huge"]
)
def test_malformed_header_gives_no_certificate(name: str) -> None:
    header, pem = pki().tpp.header.encode(), pki().tpp.certificate.read_text()
    wrong = {
        "empty": b"",
        "bare": header.strip(b":"),
        "open": header[:-1],
        "cut": header[:100] + b":",
        "spaces": b": " + header[1:],
        "two": header + header,
        "list": header + b", " + header,
        "unescaped": pem.encode(),
        "chain": quote(pem + pem, safe="").encode(),
        "huge": b":" + b"A" * client_certificates.HEADER_BYTES_MAX + b":",
    }
    assert from_header(wrong[name]) is None
