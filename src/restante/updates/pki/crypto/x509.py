"""Makes X.509 certificates: self-signed authorities, and the leaves they issue.

Pure cryptography: time is an argument, nothing is stored. Key generation may take seconds: never in a transaction.

Invariants: a serial is positive, random and at most 20 bytes long; no certificate outlives or predates its issuer; a
leaf can issue nothing; a private key leaves this module as PKCS#8 DER, and the caller encrypts it at once.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from restante.updates.pki.crypto.certificate_names import as_ip_address

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
    """The authority's certificate is not valid now, so it can issue nothing."""


@dataclass(frozen=True, slots=True)
class CertificateSubject:
    """The subject of a certificate. A part that is None is left out."""

    common_name: str | None = None
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


NO_SUBJECT = CertificateSubject()


@dataclass(frozen=True, slots=True)
class CertificateWithKey:
    certificate: x509.Certificate
    private_key_der: bytes


def new_signing_key(curve_name: str | None, rsa_key_size: int) -> SigningKey:
    if curve_name is None:
        return rsa.generate_private_key(RSA_EXPONENT, rsa_key_size)
    return ec.generate_private_key(CURVES[curve_name]())


def make_authority(
    subject: CertificateSubject,
    key: SigningKey,
    now: datetime,
    valid_days: int,
    max_path_length: int | None,
    key_usage: x509.KeyUsage | None = None,
) -> CertificateWithKey:
    """A self-signed authority that may, unless `key_usage` says otherwise, sign certificates and revocation lists."""
    public_key = key.public_key()
    name = subject.as_name()
    certificate = (
        _builder(name, name, now, now + timedelta(days=valid_days))
        .public_key(public_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=max_path_length), critical=True)
        .add_extension(key_usage or _key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key), critical=False)
        .sign(key, hashes.SHA256())
    )
    return CertificateWithKey(certificate, private_key_der(key))


def issue_leaf(
    authority: CertificateWithKey,
    names: list[str],
    now: datetime,
    validity_seconds: int,
    subject: CertificateSubject = NO_SUBJECT,
    key: SigningKey | None = None,
    crl_url: str | None = None,
) -> CertificateWithKey:
    """A certificate for these names, by default with a new P-256 key. It ends no later than its authority.

    The first name becomes the common name of the subject. `crl_url`: where its authority's revocation list is.
    """
    issuer = authority.certificate
    not_after = min(now + timedelta(seconds=validity_seconds), issuer.not_valid_after_utc)
    if not issuer.not_valid_before_utc <= now < not_after:
        raise AuthorityExpired()
    key = key or ec.generate_private_key(ec.SECP256R1())
    leaf_name = replace(subject, common_name=_common_name(names[0])).as_name()
    builder = (
        _builder(leaf_name, issuer.subject, now, not_after)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            # Old TLS clients send RSA servers a key to decipher (RFC 5246, 7.4.2).
            _key_usage(signs_certificates=False, enciphers_keys=isinstance(key, rsa.RSAPrivateKey)),
            critical=True,
        )
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        # With an empty subject the alternative names are critical (RFC 5280, 4.2.1.6).
        .add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=not list(leaf_name)
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority_identifier(issuer), critical=False)
    )
    if crl_url is not None:
        builder = builder.add_extension(_distribution_points(crl_url), critical=False)
    certificate = builder.sign(load_signing_key(authority.private_key_der), hashes.SHA256())
    return CertificateWithKey(certificate, private_key_der(key))


def private_key_der(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def as_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def as_der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def serial_text(certificate: x509.Certificate) -> str:
    """The serial number in the form of signals and responses: lower-case hex pairs, separated by colons."""
    number = certificate.serial_number
    return number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big").hex(":")


def serial_number(text: str) -> int:
    """The number of a `serial_text`."""
    return int(text.replace(":", ""), 16)


def utc_datetime(now_ms: int) -> datetime:
    """A database time in the precision of certificates: whole seconds."""
    return datetime.fromtimestamp(now_ms // 1000, UTC)


def epoch_ms(time: datetime) -> int:
    return int(time.timestamp()) * 1000


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


def _distribution_points(url: str) -> x509.CRLDistributionPoints:
    name = [x509.UniformResourceIdentifier(url)]
    return x509.CRLDistributionPoints([x509.DistributionPoint(name, None, None, None)])


def _common_name(name: str) -> str | None:
    # A common name has at most 64 characters; a longer name is in the alternative names only.
    return name if len(name) <= COMMON_NAME_CHARACTERS_MAX else None


def _general_name(name: str) -> x509.GeneralName:
    address = as_ip_address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def _key_usage(*, signs_certificates: bool, enciphers_keys: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=enciphers_keys,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        identifier = x509.SubjectKeyIdentifier.from_public_key(issuer.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def load_signing_key(der: bytes) -> SigningKey:
    key = serialization.load_der_private_key(der, None)
    if not isinstance(key, SigningKey):
        raise TypeError("an authority's key is ECDSA or RSA")
    return key
