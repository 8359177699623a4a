"""Certificates made with openssl: an authority, receivers and a client of its own, and strangers to it."""

import subprocess
from pathlib import Path
from typing import NamedTuple

DAYS = "2"


class TlsFiles(NamedTuple):
    """Paths: certificates and keys lie in one file each, but the authority's key."""

    authority: Path
    receiver: Path  # for localhost and 127.0.0.1
    elsewhere: Path  # of the same authority, for another host
    stranger: Path  # for localhost, of an authority that nobody knows
    expired: Path  # for localhost, of the authority, over since long
    client: Path


def make_tls_files(folder: Path) -> TlsFiles:
    ours, strangers = _authority(folder, "ours"), _authority(folder, "strangers")
    return TlsFiles(
        ours,
        _issued(folder, ours, "receiver", "DNS:localhost,IP:127.0.0.1"),
        _issued(folder, ours, "elsewhere", "DNS:elsewhere.example"),
        _issued(folder, strangers, "stranger", "DNS:localhost,IP:127.0.0.1"),
        _issued(folder, ours, "expired", "DNS:localhost,IP:127.0.0.1", days="-1"),
        _issued(folder, ours, "client", "DNS:restante.example"),
    )


def _authority(folder: Path, name: str) -> Path:
    certificate = folder / f"{name}.pem"
    made = ("req", "-x509", *_new_key(folder, name), "-out", str(certificate), "-days", DAYS, "-subj", f"/CN={name}")
    _openssl(*made, "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    return certificate


def _issued(folder: Path, authority: Path, name: str, alternatives: str, days: str = DAYS) -> Path:
    request, certificate, extensions = (folder / f"{name}.{kind}" for kind in ("csr", "crt", "ext"))
    _openssl("req", "-new", *_new_key(folder, name), "-out", str(request), "-subj", f"/CN={name}")
    extensions.write_text(f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth,clientAuth\n")
    by = ("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key")), "-CAcreateserial")
    made = ("x509", "-req", "-in", str(request), *by, "-out", str(certificate), "-days", days)
    _openssl(*made, "-extfile", str(extensions))
    both = folder / f"{name}.both.pem"
    both.write_bytes(certificate.read_bytes() + (folder / f"{name}.key").read_bytes())
    return both


def _new_key(folder: Path, name: str) -> tuple[str, ...]:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    return (*key, "-keyout", str(folder / f"{name}.key"))


def _openssl(*args: str) -> None:
    done = subprocess.run(["openssl", *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
