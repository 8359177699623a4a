"""TLS in the server: its certificate, the authorities of clients' certificates, and their revocation lists.

All files are read again on SIGHUP.

A client certificate is optional, because devices, collectors and people have none. If a client sends one, a configured
authority must have issued it, or the handshake fails. Each route decides whether it needs a certificate.

Invariants: no version before TLS 1.2; if a file cannot be read, the files that were read before stay in use.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from restante.core.tls_files import no_password, why_unusable
from restante.server.config.settings import Settings

_LIST_BEGIN = b"-----BEGIN X509 CRL-----"
# Forward-secret, authenticated ciphers for ECDSA and RSA; TLS 1.3 has its own.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class TlsFilesError(OSError):
    """A TLS file is unusable; the text names the file and the reason."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_crl: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Build the context for new connections, or raise TlsFilesError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(CIPHERS)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        try:
            context.load_cert_chain(self.certificate, self.key, no_password)
        except (OSError, ValueError) as error:
            raise TlsFilesError(f"{self.certificate} and {self.key}: {why_unusable(error)}") from error
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except (OSError, ValueError) as error:
                raise TlsFilesError(f"{self.client_ca}: {why_unusable(error)}") from error
            context.verify_mode = ssl.CERT_OPTIONAL
        if self.client_crl is not None:
            self._check_revocation(context, self.client_crl)
        return context

    def _check_revocation(self, context: ssl.SSLContext, client_crl: Path) -> None:
        """Refuse revoked client certificates. OpenSSL also refuses those of an authority without a current list."""
        try:
            revocation_lists(client_crl)  # OpenSSL would accept a file without any
            context.load_verify_locations(client_crl)
        except (OSError, ValueError) as error:
            raise TlsFilesError(f"{client_crl}: {why_unusable(error)}") from error
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF

    def is_revoked(self, der: bytes) -> bool:
        """Whether the revocation lists name this client certificate."""
        if self.client_crl is None:
            return False
        certificate = x509.load_der_x509_certificate(der)
        return any(
            each.issuer == certificate.issuer
            and each.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
            for each in revocation_lists(self.client_crl)
        )


def revocation_lists(path: Path) -> list[x509.CertificateRevocationList]:
    """The lists in a file, at least one; raises OSError or ValueError."""
    parts = [_LIST_BEGIN + part for part in path.read_bytes().split(_LIST_BEGIN)[1:]]
    return [x509.load_pem_x509_crl(part) for part in parts or [b""]]


def tls_files(settings: Settings) -> TlsFiles | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca, settings.client_crl)
