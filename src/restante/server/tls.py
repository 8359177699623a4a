"""TLS in the server itself: its certificate, whose clients' certificates it takes, and both read again on SIGHUP.

A client may come without a certificate: devices, collectors and people have none. One that shows a certificate must
have it from an authority of ours, or the handshake fails; whether one is needed is for what is asked.

Must always hold: no version before TLS 1.2; what cannot be read changes nothing: the files that were read go on
counting.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from restante.core.tls_files import no_password, why_unusable
from restante.server.settings import Settings

# Forward secret and authenticated; TLS 1.3 brings its own. A client with ECDSA or RSA finds one.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


class TlsFilesError(OSError):
    """The files of TLS cannot be used: which one, and why not."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What connections are made with from now on; TlsFilesError if a file is not what it should be."""
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
        return context


def tls_files(settings: Settings) -> TlsFiles | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
