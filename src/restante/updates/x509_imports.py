"""Reading certificates and keys that somebody made elsewhere: PEM in, checked material out.

Whatever is wrong with them raises BadInput naming the field that is wrong, and never repeats a key's content.
"""

from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from restante.core.errors import BadInput
from restante.updates.x509 import CURVES, Keyed, PrivateKey, SigningKey, private_key_der

RSA_BITS_MIN = 2048
RSA_BITS_MAX = 8192
CHAIN_MAX = 10

# All that reading a malformed, exotic or self-contradicting certificate can raise.
_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


def read_authority(certificate_pem: str, key_pem: str, now: datetime) -> Keyed:
    """An authority made elsewhere: one CA certificate, valid now, and the key that belongs to it."""
    chain = _read_certificates(certificate_pem, "ca_certificate_pem")
    if len(chain) != 1:
        raise BadInput("ca_certificate_pem", "exactly one certificate")
    certificate = chain[0]
    if not _may_issue(certificate):
        raise BadInput("ca_certificate_pem", "a CA certificate (basic constraints and key usage must allow issuing)")
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
        raise BadInput("ca_certificate_pem", "a certificate that is valid now")
    key = read_private_key(key_pem)
    if not isinstance(key, SigningKey) or (
        isinstance(key, ec.EllipticCurvePrivateKey) and not isinstance(key.curve, tuple(CURVES.values()))
    ):
        raise BadInput("private_key_pem", "an RSA key or an ECDSA key on P-256, P-384 or P-521")
    _require_match(certificate, key)
    return Keyed(certificate, private_key_der(key))


def read_chain(certificate_pem: str, key_pem: str) -> tuple[Keyed, list[x509.Certificate]]:
    """A certificate made elsewhere with its key, and the certificates above it, each issued by the next."""
    leaf, *above = _read_certificates(certificate_pem, "certificate_pem")
    if len(above) >= CHAIN_MAX:
        raise BadInput("certificate_pem", f"at most {CHAIN_MAX} certificates")
    key = read_private_key(key_pem)
    _require_match(leaf, key)
    for issued, issuer in zip([leaf, *above], above, strict=False):
        if not _is_issued_by(issued, issuer):
            raise BadInput("certificate_pem", "the certificate first, then each one's issuer")
    return Keyed(leaf, private_key_der(key)), above


def read_private_key(pem: str) -> PrivateKey:
    expected = "an unencrypted PEM private key (RSA of 2048 to 8192 bits, ECDSA or Ed25519)"
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except _UNREADABLE:
        # The cause is left out on purpose: a parser's message may quote what it read.
        raise BadInput("private_key_pem", expected) from None
    if isinstance(key, rsa.RSAPrivateKey) and not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        raise BadInput("private_key_pem", expected)
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise BadInput("private_key_pem", expected)
    return key


def carried_names(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses a certificate is for; its common name where it lists none."""
    try:
        listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return [str(attribute.value).lower() for attribute in common]
    names = [name.lower() for name in listed.get_values_for_type(x509.DNSName)]
    return names + [str(address) for address in listed.get_values_for_type(x509.IPAddress)]


def _read_certificates(pem: str, field: str) -> list[x509.Certificate]:
    try:
        chain = x509.load_pem_x509_certificates(pem.encode())
        for certificate in chain:
            # These are parsed when first asked for: ask now, so that nothing later can stumble over them.
            _ = certificate.extensions, certificate.public_key(), certificate.subject, certificate.issuer
            carried_names(certificate)
    except _UNREADABLE:
        raise BadInput(field, "PEM certificates that can be read") from None
    return chain


def _may_issue(certificate: x509.Certificate) -> bool:
    extensions = certificate.extensions
    try:
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
    try:
        return is_authority and extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound:
        return is_authority


def _is_issued_by(issued: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        issued.verify_directly_issued_by(issuer)
    except (*_UNREADABLE, InvalidSignature):
        return False
    return True


def _require_match(certificate: x509.Certificate, key: PrivateKey) -> None:
    if key.public_key() != certificate.public_key():
        raise BadInput("private_key_pem", "the key that belongs to the certificate")
