"""The client certificate of a request, from the TLS connection or from a proxy's `Client-Cert` header.

The TLS handshake, ours or the proxy's, has proved that a trusted authority issued it and that the caller has its key.
This module only reads it: its thumbprint, which access tokens are bound to (RFC 8705), its subject and its validity.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from restante.identity.clients import subject_dn

HEADER_BYTES_MAX = 16_384
CACHED_MAX = 4096
# RFC 9440: a byte sequence of structured fields. Some proxies can only send the PEM text, percent-encoded.
_BYTE_SEQUENCE = re.compile(rb":([A-Za-z0-9+/]+={0,2}):")
_ESCAPED_PEM = re.compile(rb"-----BEGIN%20CERTIFICATE-----[A-Za-z0-9+/=%._~-]+")


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    thumbprint: str  # base64url of the SHA-256 of its DER form, as in `cnf.x5t#S256`
    subject: str  # canonical, see subject_dn
    not_before: float  # seconds since the epoch
    not_after: float

    def is_valid_at(self, now: float) -> bool:
        return self.not_before <= now <= self.not_after


@lru_cache(CACHED_MAX)
def from_der(der: bytes) -> ClientCertificate | None:
    """None if the bytes are no certificate, or one whose subject cannot be read."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        subject = subject_dn.canonical_of(certificate.subject)
    except (ValueError, TypeError):
        return None
    return ClientCertificate(
        thumbprint_of(der),
        subject,
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


@lru_cache(CACHED_MAX)
def from_header(value: bytes) -> ClientCertificate | None:
    """The certificate in a trusted proxy's header; None if the header is malformed."""
    value = value.strip(b" \t")
    if len(value) > HEADER_BYTES_MAX:
        return None
    sequence = _BYTE_SEQUENCE.fullmatch(value)
    try:
        if sequence:
            return from_der(binascii.a2b_base64(sequence[1], strict_mode=True))
        if _ESCAPED_PEM.fullmatch(value):
            certificates = x509.load_pem_x509_certificates(unquote_to_bytes(value))
            return from_der(_der(certificates[0])) if len(certificates) == 1 else None
    except ValueError:
        return None
    return None


def thumbprint_of(der: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)
