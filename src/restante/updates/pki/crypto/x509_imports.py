"""Reads certificates and keys that were made elsewhere: PEM in, checked certificates and keys out.

Every problem raises BadInput with the field. The message never contains parts of a key.
"""

from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from restante.core.errors import BadInput
from restante.updates.pki.crypto.x509 import CURVES, CertificateWithKey, PrivateKey, SigningKey, private_key_der

RSA_BITS_MIN = 2048
RSA_BITS_MAX = 8192
CHAIN_MAX = 10

# All exceptions that reading a malformed, unusual or contradictory certificate can raise.
_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


def read_authority(certificate_pem: str, key_pem: str, now: datetime) -> CertificateWithKey:
    """Read an authority: one CA certificate that is valid now, and its key."""
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
    _check_match(certificate, key)
    return CertificateWithKey(certificate, private_key_der(key))


def read_chain(certificate_pem: str, key_pem: str) -> tuple[CertificateWithKey, list[x509.Certificate]]:
    """Read a certificate with its key, and the chain of its issuers, each issued by the next."""
    leaf, *issuers = _read_certificates(certificate_pem, "certificate_pem")
    if len(issuers) >= CHAIN_MAX:
        raise BadInput("certificate_pem", f"at most {CHAIN_MAX} certificates")
    key = read_private_key(key_pem)
    _check_match(leaf, key)
    for issued, issuer in zip([leaf, *issuers], issuers, strict=False):
        if not _is_issued_by(issued, issuer):
            raise BadInput("certificate_pem", "the certificate first, then the issuer of each")
    return CertificateWithKey(leaf, private_key_der(key)), issuers


def read_private_key(pem: str) -> PrivateKey:
    expected = "an unencrypted PEM private key (RSA of 2048 to 8192 bits, ECDSA or Ed25519)"
    try:
        key = serialization.load_pem_private_key(pem.encode(), None)
    except _UNREADABLE:
        # The cause is dropped on purpose: a parser's message may quote the key.
        raise BadInput("private_key_pem", expected) from None
    if isinstance(key, rsa.RSAPrivateKey) and not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        raise BadInput("private_key_pem", expected)
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise BadInput("private_key_pem", expected)
    return key


def names_of_certificate(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses of a certificate; its common name if it lists none."""
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
            # These are parsed on first access: access them now, so that no later code meets the error.
            _ = certificate.extensions, certificate.public_key(), certificate.subject, certificate.issuer
            names_of_certificate(certificate)
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


def _check_match(certificate: x509.Certificate, key: PrivateKey) -> None:
    if key.public_key() != certificate.public_key():
        raise BadInput("private_key_pem", "the key that belongs to the certificate")
