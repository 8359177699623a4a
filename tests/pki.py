"""Authorities and certificates for tests, made by the real openssl: a folder of PEM files."""

import base64
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

TPP_SUBJECT = "/C=GB/O=Example TPP Ltd/organizationIdentifier=PSDGB-FCA-123456/CN=tpp one"
TPP_DN = "CN=tpp one,organizationIdentifier=PSDGB-FCA-123456,O=Example TPP Ltd,C=GB"


class Pair(NamedTuple):
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @property
    def der(self) -> bytes:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).public_bytes(Encoding.DER)

    @property
    def header(self) -> str:
        """As RFC 9440 has a proxy send it."""
        return f":{base64.b64encode(self.der).decode()}:"


class Pki:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self.authority = self._authority("/CN=Test Root")
        self.foreign_authority = self._authority("/CN=Somebody Else's Root")
        self.server = self.issue("/CN=localhost", names="DNS:localhost,IP:127.0.0.1")
        self.tpp = self.issue(TPP_SUBJECT)
        self.other_tpp = self.issue("/C=GB/O=Other TPP Ltd/CN=tpp two")
        self.expired = self.issue(TPP_SUBJECT, days=-1)
        self.foreign = self.issue(TPP_SUBJECT, by=self.foreign_authority)

    def issue(self, subject: str, *, by: Pair | None = None, days: int = 30, names: str = "") -> Pair:
        pair, request = self._next(), self._folder / f"{self._made}.csr"
        authority = by or self.authority
        _openssl("req", "-new", *_NEW_KEY, "-keyout", pair.key, "-out", request, "-subj", subject, "-utf8")
        extensions = self._folder / f"{self._made}.ext"
        extensions.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        signing = ("-CA", authority.certificate, "-CAkey", authority.key, "-CAcreateserial", "-extfile", extensions)
        _openssl("x509", "-req", "-in", request, *signing, "-days", str(days), "-out", pair.certificate)
        return pair

    def _authority(self, subject: str) -> Pair:
        pair = self._next()
        _openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", pair.key, "-out", pair.certificate, "-subj", subject, "-days", "30"
        )
        return pair

    def _next(self) -> Pair:
        self._made += 1
        return Pair(self._folder / f"{self._made}.crt", self._folder / f"{self._made}.key")


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


@cache
def pki() -> Pki:
    """One for all tests of a process: whoever wants certificates to change issues their own."""
    return Pki(Path(mkdtemp(prefix="restante-pki-")))
