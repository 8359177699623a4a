from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from restante.core.errors import BadInput
from restante.updates.pki.crypto.x509 import (
    CertificateSubject,
    CertificateWithKey,
    as_pem,
    issue_leaf,
    make_authority,
    new_signing_key,
)
from restante.updates.pki.crypto.x509_imports import names_of_certificate, read_authority, read_chain, read_private_key

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)
PEM, NO_ENCRYPTION = serialization.Encoding.PEM, serialization.NoEncryption()
TRADITIONAL, PKCS8 = serialization.PrivateFormat.TraditionalOpenSSL, serialization.PrivateFormat.PKCS8


def authority(name: str = "Elsewhere CA", days: int = 30) -> CertificateWithKey:
    return make_authority(CertificateSubject(name), new_signing_key("P-256", 0), NOW, days, None)


def key_pem(with_key: CertificateWithKey) -> str:
    key = serialization.load_der_private_key(with_key.private_key_der, None)
    return key.private_bytes(PEM, PKCS8, NO_ENCRYPTION).decode()


def self_signed(*extensions: tuple[x509.ExtensionType, bool]) -> tuple[str, str]:
    """Some certificate with its key, both as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Some.Example")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, NOW, NOW + timedelta(days=1))
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    private = key.private_bytes(PEM, TRADITIONAL, NO_ENCRYPTION).decode()
    return as_pem(builder.sign(key, hashes.SHA256())), private


def usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, signs, False, False, False)


def test_authority_is_read() -> None:
    ca = authority()
    imported = read_authority(as_pem(ca.certificate), key_pem(ca), NOW)
    assert imported == ca


def test_key_usage_may_be_missing_but_must_allow_signing() -> None:
    is_ca = (x509.BasicConstraints(True, None), True)
    assert read_authority(*self_signed(is_ca), NOW)
    assert read_authority(*self_signed(is_ca, (usage(True), True)), NOW)
    with pytest.raises(BadInput, match=r"^ca_certificate_pem: .*a CA certificate"):
        read_authority(*self_signed(is_ca, (usage(False), True)), NOW)


@pytest.mark.parametrize("extensions", [(), ((x509.BasicConstraints(False, None), True),)])
def test_certificate_that_is_no_authority_is_refused(extensions: tuple[tuple[x509.ExtensionType, bool], ...]) -> None:
    with pytest.raises(BadInput, match=r"^ca_certificate_pem: .*a CA certificate"):
        read_authority(*self_signed(*extensions), NOW)


@pytest.mark.parametrize("days", [-1, 30])
def test_authority_must_be_valid_now(days: int) -> None:
    ca = authority()
    with pytest.raises(BadInput, match=r"^ca_certificate_pem: .*valid now"):
        read_authority(as_pem(ca.certificate), key_pem(ca), NOW + timedelta(days=days))


def test_authority_must_be_one_certificate() -> None:
    ca = authority()
    with pytest.raises(BadInput, match=r"^ca_certificate_pem: .*exactly one"):
        read_authority(as_pem(ca.certificate) * 2, key_pem(ca), NOW)


def test_key_must_belong_to_the_authority() -> None:
    with pytest.raises(BadInput, match=r"^private_key_pem: .*belongs"):
        read_authority(as_pem(authority().certificate), key_pem(authority()), NOW)


def test_authority_key_must_be_rsa_or_ecdsa() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, NOW, NOW + timedelta(days=1))
    certificate = builder.add_extension(x509.BasicConstraints(True, None), True).sign(key, None)
    with pytest.raises(BadInput, match=r"^private_key_pem: .*RSA key or an ECDSA"):
        read_authority(as_pem(certificate), key.private_bytes(PEM, PKCS8, NO_ENCRYPTION).decode(), NOW)


def test_chain_is_read_leaf_first() -> None:
    ca = authority()
    leaf = issue_leaf(ca, ["a.example"], NOW, 300)
    with_key, above = read_chain(as_pem(leaf.certificate) + as_pem(ca.certificate), key_pem(leaf))
    assert with_key == leaf
    assert above == [ca.certificate]
    assert read_chain(as_pem(leaf.certificate), key_pem(leaf)) == (leaf, [])


def test_chain_out_of_order_or_unrelated_is_refused() -> None:
    ca = authority()
    leaf = issue_leaf(ca, ["a.example"], NOW, 300)
    with pytest.raises(BadInput, match=r"^certificate_pem: .*the issuer of each"):
        read_chain(as_pem(leaf.certificate) + as_pem(authority("Another").certificate), key_pem(leaf))
    # The same name is not enough: the signature must be the issuer's.
    with pytest.raises(BadInput, match=r"^certificate_pem: .*the issuer of each"):
        read_chain(as_pem(leaf.certificate) + as_pem(authority().certificate), key_pem(leaf))


def test_chain_length_is_bounded() -> None:
    ca = authority()
    with pytest.raises(BadInput, match=r"^certificate_pem: .*at most 10"):
        read_chain(as_pem(ca.certificate) * 11, key_pem(ca))
    assert len(read_chain(as_pem(ca.certificate) * 10, key_pem(ca))[1]) == 9


def test_key_must_belong_to_the_leaf() -> None:
    ca = authority()
    leaf = issue_leaf(ca, ["a.example"], NOW, 300)
    with pytest.raises(BadInput, match=r"^private_key_pem: .*belongs"):
        read_chain(as_pem(leaf.certificate), key_pem(ca))


@pytest.mark.parametrize("text", ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"^certificate_pem: "):
        read_chain(text, key_pem(authority()))


@pytest.mark.parametrize(
    "key",
    [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())],
    ids=["rsa", "ecdsa"],
)
@pytest.mark.parametrize("form", [TRADITIONAL, PKCS8])
def test_common_key_formats_are_read(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat
) -> None:
    read = read_private_key(key.private_bytes(PEM, form, NO_ENCRYPTION).decode())
    assert read.public_key() == key.public_key()


def test_refused_key_is_not_in_the_message() -> None:
    weak = rsa.generate_private_key(65537, 1024).private_bytes(PEM, PKCS8, NO_ENCRYPTION)
    odd = dsa.generate_private_key(2048).private_bytes(PEM, PKCS8, NO_ENCRYPTION)
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        PEM, PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    for pem in (weak.decode(), odd.decode(), locked.decode(), "no PEM at all"):
        with pytest.raises(BadInput, match=r"^private_key_pem: ") as caught:
            read_private_key(pem)
        assert pem not in caught.value.message


def test_names_of_a_certificate() -> None:
    alternative = x509.SubjectAlternativeName([x509.DNSName("B.example"), x509.DNSName("*.a.example")])
    pem, _ = self_signed((alternative, False))
    assert names_of_certificate(x509.load_pem_x509_certificate(pem.encode())) == ["b.example", "*.a.example"]
    bare, _ = self_signed()
    assert names_of_certificate(x509.load_pem_x509_certificate(bare.encode())) == ["some.example"]
