"""Making X.509 certificates: authorities of one's own, and the leaves they issue.

Pure cryptography: time is an argument, nothing is stored. What always holds: a serial is positive, random,
of at most 20 bytes; no certificate outlives or predates its issuer; a leaf can issue nothing; a key leaves
this module as PKCS#8 DER, to be encrypted at once. Key generation takes seconds: never in a transaction.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from restante.updates.names import as_ip_address

COMMON_NAME_CHARACTERS_MAX = 64
RSA_EXPONENT = 65537

SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PrivateKey = SigningKey | ed25519.Ed25519PrivateKey
CURVES: dict[str, type[ec.EllipticCurve]] = {
    "P-256": ec.SECP256R1,
    "P-384": ec.SECP384R1,
    "P-521": ec.SECP521R1,
}


class AuthorityExpired(Exception):
    """The authority's certificate is not valid now: it can issue nothing."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Who an authority says it is."""

    common_name: str
    organization: str | None = None
    organizational_unit: str | None = None
    country: str | None = None
    state: str | None = None
    locality: str | None = None

    def as_name(self) -> x509.Name:
        parts = (
            (NameOID.COUNTRY_NAME, self.country),
            (NameOID.STATE_OR_PROVINCE_NAME, self.state),
            (NameOID.LOCALITY_NAME, self.locality),
            (NameOID.ORGANIZATION_NAME, self.organization),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, self.organizational_unit),
            (NameOID.COMMON_NAME, self.common_name),
        )
        return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts if value is not None])


class Keyed(NamedTuple):
    """A certificate and its private key."""

    certificate: x509.Certificate
    private_key_der: bytes


def new_signing_key(curve_name: str | None, rsa_key_size: int) -> SigningKey:
    if curve_name is None:
        return rsa.generate_private_key(RSA_EXPONENT, rsa_key_size)
    return ec.generate_private_key(CURVES[curve_name]())


def make_authority(
    subject: Subject, key: SigningKey, now: datetime, valid_days: int, max_path_length: int | None
) -> Keyed:
    """A self-signed authority that may sign certificates and revocation lists."""
    public_key = key.public_key()
    name = subject.as_name()
    certificate = (
        _builder(name, name, now, now + timedelta(days=valid_days))
        .public_key(public_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=max_path_length), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Keyed(certificate, private_key_der(key))


def issue_leaf(authority: Keyed, names: list[str], now: datetime, validity_seconds: int) -> Keyed:
    """A certificate for these names with a new P-256 key; it ends with its authority if that ends first."""
    issuer = authority.certificate
    not_after = min(now + timedelta(seconds=validity_seconds), issuer.not_valid_after_utc)
    if not issuer.not_valid_before_utc <= now < not_after:
        raise AuthorityExpired()
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _leaf_subject(names[0])
    certificate = (
        _builder(subject, issuer.subject, now, not_after)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        # Without a subject the names are all there is, and must not be skipped (RFC 5280, 4.2.1.6).
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=not list(subject))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_identifier_of(issuer), critical=False)
        .sign(_signing_key(authority.private_key_der), hashes.SHA256())
    )
    return Keyed(certificate, private_key_der(key))


def private_key_der(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def as_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def as_der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def serial_text(certificate: x509.Certificate) -> str:
    """The serial number as signals and answers show it: lower-case hex pairs with colons between."""
    number = certificate.serial_number
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big").hex(":")


def at_moment(now_ms: int) -> datetime:
    """A database time as certificates know it: whole seconds."""
    return datetime.fromtimestamp(now_ms // 1000, UTC)


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _builder(
    subject: x509.Name, issuer: x509.Name, not_before: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )


def _leaf_subject(name: str) -> x509.Name:
    # A common name has room for 64 characters; a longer name stands among the alternative names only.
    if len(name) > COMMON_NAME_CHARACTERS_MAX:
        return x509.Name([])
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    address = as_ip_address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _identifier_of(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        identifier = x509.SubjectKeyIdentifier.from_public_key(issuer.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _signing_key(der: bytes) -> SigningKey:
    key = serialization.load_der_private_key(der, None)
    if not isinstance(key, SigningKey):
        raise TypeError("an authority's key is ECDSA or RSA")
    return key
