"""Certificates made with openssl: an authority, certificates that it issued, and one of an unknown authority."""

import subprocess
from pathlib import Path
from typing import NamedTuple

DAYS = "2"


class TlsFiles(NamedTuple):
    """Paths. Each file holds a certificate and its key, except that of the authority."""

    authority: Path
    receiver: Path  # for localhost and 127.0.0.1
    elsewhere: Path  # for another host
    stranger: Path  # for localhost, issued by an unknown authority
    expired: Path  # for localhost, expired
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
    arguments = (
        "req",
        "-x509",
        *_new_key(folder, name),
        "-out",
        str(certificate),
        "-days",
        DAYS,
        "-subj",
        f"/CN={name}",
    )
    _openssl(
        *arguments, "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"
    )
    return certificate


def _issued(folder: Path, authority: Path, name: str, alternatives: str, days: str = DAYS) -> Path:
    request, certificate, extensions = (folder / f"{name}.{kind}" for kind in ("csr", "crt", "ext"))
    _openssl("req", "-new", *_new_key(folder, name), "-out", str(request), "-subj", f"/CN={name}")
    extensions.write_text(f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth,clientAuth\n")
    by = ("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key")), "-CAcreateserial")
    arguments = ("x509", "-req", "-in", str(request), *by, "-out", str(certificate), "-days", days)
    _openssl(*arguments, "-extfile", str(extensions))
    both = folder / f"{name}.both.pem"
    both.write_bytes(certificate.read_bytes() + (folder / f"{name}.key").read_bytes())
    return both


def _new_key(folder: Path, name: str) -> tuple[str, ...]:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    return (*key, "-keyout", str(folder / f"{name}.key"))


def _openssl(*args: str) -> None:
    done = subprocess.run(["openssl", *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
