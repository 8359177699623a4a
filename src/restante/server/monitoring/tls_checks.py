"""The doctor's checks of the TLS files, if the server terminates TLS: usable, private, and not expiring soon."""

import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from restante.server.config.settings import Settings
from restante.server.http.tls.files import TlsFiles, TlsFilesError, revocation_lists, tls_files
from restante.server.monitoring.checks import OTHERS, Finding, State, check_node, check_redis

SUBJECT = "TLS"
EXPIRES_SOON = timedelta(days=21)


def check_all(settings: Settings) -> Iterator[Finding]:
    """All checks of an installation whose settings are valid. Blocks: reads files, the database and Redis."""
    yield from check_node(settings)
    yield from check_redis(settings)
    yield from check_tls(settings)


def check_tls(settings: Settings) -> Iterator[Finding]:
    """Yield nothing if the server does not terminate TLS."""
    files = tls_files(settings)
    if files is None:
        return
    try:
        files.context()
    except TlsFilesError as error:
        yield Finding(SUBJECT, State.problem, str(error), "give PEM files that the server can read")
        return
    yield from _mode(files.key)
    if files.client_crl is not None:
        yield from _list_expiry(files.client_crl, datetime.now(UTC))
    yield from _expiry(files, datetime.now(UTC))


def _mode(key: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & OTHERS:
        yield Finding(SUBJECT, State.warning, f"{key} has mode {mode:04o}: others can read it", f"chmod 600 {key}")


def _list_expiry(path: Path, now: datetime) -> Iterator[Finding]:
    """OpenSSL refuses every client certificate of an authority whose revocation list has expired."""
    for each in revocation_lists(path):
        until = each.next_update_utc
        if until is not None and until <= now:
            what = f"{path}: the list of {each.issuer.rfc4514_string()} expired on {until:%Y-%m-%d %H:%M:%S}Z"
            yield Finding(SUBJECT, State.problem, what, "get the current list, then send the server SIGHUP")
        else:
            what = "does not expire" if until is None else f"is valid until {until:%Y-%m-%d %H:%M:%S}Z"
            yield Finding(SUBJECT, State.ok, f"{path}: the list of {each.issuer.rfc4514_string()} {what}")


def _expiry(files: TlsFiles, now: datetime) -> Iterator[Finding]:
    for path in filter(None, (files.certificate, files.client_ca)):
        until = min(
            certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(path.read_bytes())
        )
        what = f"{path} is valid until {until:%Y-%m-%d %H:%M:%S}Z"
        remedy = "renew it, then send the server SIGHUP"
        if until <= now:
            yield Finding(SUBJECT, State.problem, f"{path} expired on {until:%Y-%m-%d %H:%M:%S}Z", remedy)
        elif until <= now + EXPIRES_SOON:
            yield Finding(SUBJECT, State.warning, what, remedy)
        else:
            yield Finding(SUBJECT, State.ok, what)
