"""What the doctor looks at where the server speaks TLS itself: can the files be used, and for how long."""

import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from restante.cli.checks import OTHERS, Finding, State
from restante.server.settings import Settings
from restante.server.tls import TlsFiles, TlsFilesError, tls_files

SUBJECT = "TLS"
SOON = timedelta(days=21)


def look_at_tls(settings: Settings) -> Iterator[Finding]:
    """Nothing where a proxy speaks TLS, or nobody."""
    files = tls_files(settings)
    if files is None:
        return
    try:
        files.context()
    except TlsFilesError as error:
        yield Finding(SUBJECT, State.problem, str(error), "give PEM files that the server can read")
        return
    yield from _mode(files.key)
    yield from _times(files, datetime.now(UTC))


def _mode(key: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & OTHERS:
        yield Finding(SUBJECT, State.warning, f"{key} has mode {mode:04o}: others can reach it", f"chmod 600 {key}")


def _times(files: TlsFiles, now: datetime) -> Iterator[Finding]:
    for path in filter(None, (files.certificate, files.client_ca)):
        until = min(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(path.read_bytes()))
        what = f"{path} is valid until {until:%Y-%m-%d %H:%M:%S}Z"
        remedy = "renew it, then send the server SIGHUP"
        if until <= now:
            yield Finding(SUBJECT, State.problem, f"{path} expired on {until:%Y-%m-%d %H:%M:%S}Z", remedy)
        elif until <= now + SOON:
            yield Finding(SUBJECT, State.warning, what, remedy)
        else:
            yield Finding(SUBJECT, State.ok, what)
