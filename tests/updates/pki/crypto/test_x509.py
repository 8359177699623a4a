"""Certificates are verified with cryptography's path validation and the openssl command."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from restante.updates.pki.crypto.x509 import (
    AuthorityExpired,
    CertificateSubject,
    CertificateWithKey,
    as_pem,
    epoch_ms,
    issue_leaf,
    make_authority,
    new_signing_key,
    serial_text,
    utc_datetime,
)

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
SUBJECT = CertificateSubject("Workshop CA", organization="Workshop", country="DE", state="Berlin", locality="Berlin")


def authority(curve: str | None = "P-256", path_length: int | None = None, days: int = 30) -> CertificateWithKey:
    return make_authority(SUBJECT, new_signing_key(curve, 2048), NOW, days, path_length)


@pytest.mark.parametrize("curve", ["P-256", "P-384", None])
def test_leaf_passes_path_validation(curve: str | None) -> None:
    ca = authority(curve)
    leaf = issue_leaf(ca, ["www.example.com", "*.example.org"], NOW, 3600)
    for name in ("www.example.com", "any.example.org"):
        verifier = (
            PolicyBuilder()
            .store(Store([ca.certificate]))
            .time(NOW + timedelta(minutes=1))
            .build_server_verifier(x509.DNSName(name))
        )
        assert verifier.verify(leaf.certificate, [])[-1] == ca.certificate


@pytest.mark.parametrize("curve", ["P-256", "P-384", "P-521", None])
def test_leaf_is_verified_by_openssl(curve: str | None, tmp_path: Path) -> None:
    ca = authority(curve, path_length=0)
    leaf = issue_leaf(ca, ["www.example.com", "192.0.2.7"], NOW, 3600)
    (tmp_path / "ca.pem").write_text(as_pem(ca.certificate))
    (tmp_path / "leaf.pem").write_text(as_pem(leaf.certificate))
    at = str(int(NOW.timestamp()) + 60)
    for name in (["-verify_hostname", "www.example.com"], ["-verify_ip", "192.0.2.7"]):
        command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-attime", at, *name]
        done = subprocess.run(
            [*command, "-CAfile", "ca.pem", "leaf.pem"], cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_authority_has_ca_extensions() -> None:
    certificate = authority(path_length=2).certificate
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 2)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert usage.value.crl_sign
    assert certificate.not_valid_before_utc == NOW
    assert certificate.not_valid_after_utc == NOW + timedelta(days=30)
    country = certificate.subject.get_attributes_for_oid(NameOID.COUNTRY_NAME)
    assert country[0].value == "DE"


def test_leaf_has_server_and_client_extensions() -> None:
    ca = authority()
    leaf = issue_leaf(ca, ["www.example.com", "192.0.2.7"], NOW, 3600)
    extensions = leaf.certificate.extensions
    basic = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert (basic.critical, basic.value.ca) == (True, False)
    assert usage.critical
    assert not usage.value.key_cert_sign
    assert set(purposes) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert names.value.get_values_for_type(x509.DNSName) == ["www.example.com"]
    assert [str(ip) for ip in names.value.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]
    assert not names.critical
    assert leaf.certificate.issuer == ca.certificate.subject


def test_key_identifiers_link_leaf_and_authority() -> None:
    ca = authority()
    leaf = issue_leaf(ca, ["www.example.com"], NOW, 3600).certificate
    own = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    named = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert named.key_identifier == own.digest
    assert leaf.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value != own


def test_name_too_long_for_the_subject_is_in_critical_alternative_names() -> None:
    name = "a" * 60 + ".example"
    leaf = issue_leaf(authority(), [name], NOW, 3600).certificate
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not list(leaf.subject)
    assert names.critical


def test_validity_is_exact_and_ends_with_the_authority() -> None:
    ca = authority(days=1)
    short = issue_leaf(ca, ["a.example"], NOW, 300).certificate
    assert (short.not_valid_before_utc, short.not_valid_after_utc) == (NOW, NOW + timedelta(seconds=300))
    long = issue_leaf(ca, ["a.example"], NOW, 86400 * 90).certificate
    assert long.not_valid_after_utc == ca.certificate.not_valid_after_utc


@pytest.mark.parametrize("days", [-1, 30, 31])
def test_authority_that_is_not_valid_issues_nothing(days: int) -> None:
    with pytest.raises(AuthorityExpired):
        issue_leaf(authority(), ["a.example"], NOW + timedelta(days=days), 300)


def test_every_leaf_has_its_own_key_and_serial() -> None:
    ca = authority()
    one, two = (issue_leaf(ca, ["a.example"], NOW, 300) for _ in range(2))
    assert one.private_key_der != two.private_key_der
    assert one.certificate.serial_number != two.certificate.serial_number
    for certificate in (one.certificate, ca.certificate):
        assert 0 < certificate.serial_number < 2**160


def test_private_keys_are_pkcs8() -> None:
    leaf = issue_leaf(authority(None), ["a.example"], NOW, 300)
    key = serialization.load_der_private_key(leaf.private_key_der, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert key.public_key() == leaf.certificate.public_key()


def test_requested_key_types() -> None:
    key = new_signing_key(None, 2048)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == 2048
    assert new_signing_key("P-521", 0).key_size == 521


@pytest.mark.parametrize(("number", "text"), [(0x04AB, "04:ab"), (0xFF, "ff"), (0x1, "01")])
def test_serial_text_is_hex_pairs_with_colons(number: int, text: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    certificate = (x509.CertificateBuilder(name, name, key.public_key(), number, NOW, NOW + timedelta(days=1))).sign(
        key, hashes.SHA256()
    )
    assert serial_text(certificate) == text


def test_times_are_whole_seconds() -> None:
    assert utc_datetime(1_800_000_000_999) == datetime.fromtimestamp(1_800_000_000, UTC)
    assert epoch_ms(utc_datetime(1_800_000_000_999)) == 1_800_000_000_000
