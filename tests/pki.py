"""Certificate authorities and certificates for tests, created with openssl as PEM files in a folder."""

import base64
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

TPP_SUBJECT = "/C=GB/O=Example TPP Ltd/organizationIdentifier=PSDGB-FCA-123456/CN=tpp one"
TPP_DN = "CN=tpp one,organizationIdentifier=PSDGB-FCA-123456,O=Example TPP Ltd,C=GB"


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    @property
    def der(self) -> bytes:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).public_bytes(Encoding.DER)

    @property
    def header(self) -> str:
        """The certificate as a proxy sends it in a header (RFC 9440)."""
        return f":{base64.b64encode(self.der).decode()}:"


class Pki:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.authority = self._authority("/CN=Test Root")
        self.foreign_authority = self._authority("/CN=Foreign Root")
        self.server = self.issue("/CN=localhost", names="DNS:localhost,IP:127.0.0.1")
        self.tpp = self.issue(TPP_SUBJECT)
        self.other_tpp = self.issue("/C=GB/O=Other TPP Ltd/CN=tpp two")
        self.expired = self.issue(TPP_SUBJECT, days=-1)
        self.foreign = self.issue(TPP_SUBJECT, by=self.foreign_authority)

    def issue(
        self, subject: str, *, by: CertificateFiles | None = None, days: int = 30, names: str = ""
    ) -> CertificateFiles:
        files, request = self._next(), self._folder / f"{self._count}.csr"
        authority = by or self.authority
        _openssl("req", "-new", *_NEW_KEY, "-keyout", files.key, "-out", request, "-subj", subject, "-utf8")
        extensions = self._folder / f"{self._count}.ext"
        extensions.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        signing = ("-CA", authority.certificate, "-CAkey", authority.key, "-CAcreateserial", "-extfile", extensions)
        _openssl("x509", "-req", "-in", request, *signing, "-days", str(days), "-out", files.certificate)
        return files

    def _authority(self, subject: str) -> CertificateFiles:
        files = self._next()
        _openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", files.key, "-out", files.certificate, "-subj", subject, "-days", "30"
        )
        return files

    def _next(self) -> CertificateFiles:
        self._count += 1
        return CertificateFiles(self._folder / f"{self._count}.crt", self._folder / f"{self._count}.key")


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


@cache
def pki() -> Pki:
    """One PKI for all tests of a process. A test that changes certificates must issue its own."""
    return Pki(Path(mkdtemp(prefix="restante-pki-")))
