"""TLS to Redis: which certificates are trusted, and which one is presented.

Invariant: the certificate of a server is always verified. Its name is verified too, unless the address disables that:
the host names that a cluster or Sentinel reports may be missing in the certificates.
"""

import ssl
from dataclasses import dataclass

from restante.core.tls_files import no_password, why_unusable


class RedisTlsError(OSError):
    """A file cannot be used. The message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class RedisTls:
    """Paths of PEM files. Without `authority`, the system's authorities are trusted, or those of `SSL_CERT_FILE`."""

    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    checks_name: bool = True

    def context(self) -> ssl.SSLContext:
        """Make a context for new connections. The files are read every time."""
        try:
            context = ssl.create_default_context(cafile=self.authority)
        except (OSError, ValueError) as error:
            raise RedisTlsError(f"{self.authority}: {why_unusable(error)}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.checks_name
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, no_password)
            except (OSError, ValueError) as error:
                raise RedisTlsError(f"{self.certificate} and {self.key}: {why_unusable(error)}") from error
        return context


def untrusted_reason(error: ssl.SSLCertVerificationError) -> str:
    return f"its certificate is not trusted: {error.verify_message or error}"
