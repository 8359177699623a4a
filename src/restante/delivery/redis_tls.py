"""TLS to Redis: whose certificates are taken, and the one that is shown.

Must always hold: a server's certificate is verified, always; its name too, unless the address says that servers go by
names that are not in their certificates, as those may that a cluster or Sentinel tells of.
"""

import ssl
from dataclasses import dataclass

from restante.core.tls_files import no_password, why_unusable


class RedisTlsError(OSError):
    """A file cannot be used: which one, and why not."""


@dataclass(frozen=True, slots=True)
class RedisTls:
    """Paths of PEM files; without an authority's, those count that the system trusts, or that `SSL_CERT_FILE` names."""

    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    checks_name: bool = True

    def context(self) -> ssl.SSLContext:
        """What connections are made with from now on; the files are read again each time."""
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


def why_not_trusted(error: ssl.SSLCertVerificationError) -> str:
    return f"its certificate is not to be trusted: {error.verify_message or error}"
