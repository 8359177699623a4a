"""Renews certificates by calendar: after two thirds of its life, unless set otherwise, a certificate is issued again.

    due: renew_at has passed ─▶ lease (renew_at moves by the lease) ─▶ make key and certificate (no transaction)
                             ─▶ store: as a renewal by hand, the devices get the same signals; renew_at of the new one
                             └▶ failed: renew_at moves by the back-off, the error is kept with the certificate

The lease makes exactly one node renew a certificate; if that node ends, another one does it after the lease. A new
certificate is valid as long as the one before was. Authorities are never renewed: a certificate that cannot outlive the
current one, because its authority ends, is a failed renewal, so that an operator replaces the authority in time.
"""

import asyncio
from dataclasses import dataclass

import structlog

from restante.core.backoff import Backoff
from restante.core.errors import Conflict, RestanteError
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit
from restante.delivery.wakeup import Wakeup
from restante.identity import access_audit
from restante.identity.master_key import MasterKey, MasterKeyError
from restante.updates.pki import issuing
from restante.updates.pki.crypto.issued_certificate import IssuedCertificate
from restante.updates.pki.crypto.x509 import epoch_ms
from restante.updates.pki.issuing import VALIDITY_SECONDS_MIN, IssuePlan, IssueRules

SQL = queries_beside(__file__)
log = structlog.get_logger()

INTERVAL_SECONDS = 30.0
BATCH_MAX = 10
# Longer than a batch of RSA keys takes on a slow machine.
LEASE_SECONDS = 300
ERROR_CHARACTERS_MAX = 500

_RETRY_SECONDS_MIN = 30.0
_RETRY_SECONDS_FIRST_MAX = 600.0
_RETRY_SECONDS_MAX = 6 * 3600.0
_ATTEMPTS_MAX = 2**31


@dataclass(frozen=True, slots=True)
class DueRenewal:
    """A certificate whose renewal this process leased. Without a plan it cannot be issued; `error` says why."""

    cert_id: int
    user_id: int
    domain_name: str
    not_after: int
    lifetime_seconds: int
    plan: IssuePlan | None
    error: str = ""


def lease_due(conn: Connection, rules: IssueRules) -> list[DueRenewal]:
    """Lease the next certificates whose renewal is due, oldest first."""
    conn.lock("certificate renewals", 0)
    rows = conn.all(SQL.due, now_ms=conn.now_ms, limit=BATCH_MAX)
    conn.run_rows(SQL.lease, [(conn.now_ms + LEASE_SECONDS * 1000, row["id"]) for row in rows])
    return [_due(conn, row, rules) for row in rows]


def make(due: DueRenewal, master_key: MasterKey) -> IssuedCertificate:
    """Make the next certificate; raises RestanteError if that gains nothing. May take seconds."""
    if due.plan is None:
        raise Conflict(due.error)
    lifetime_seconds = max(due.lifetime_seconds, VALIDITY_SECONDS_MIN)
    try:
        issued = issuing.make_certificate(due.plan, master_key, lifetime_seconds)
    except MasterKeyError as error:
        raise Conflict(f"the key of the authority cannot be opened: {error.problem}") from None
    ends = epoch_ms(issued.certificate.not_valid_after_utc)
    if ends <= due.not_after:
        raise Conflict(
            f"the authority ends at {iso_precise(ends)}, and with it every certificate that it issues: replace the "
            "authority"
        )
    return issued


def store(conn: Connection, emit: Emit, due: DueRenewal, issued: IssuedCertificate) -> None:
    """Store the certificate as a renewal by hand does, and record it."""
    if due.plan is None:
        raise Conflict(due.error)
    renewed = issuing.store(conn, emit, due.plan, issued)
    detail = {"cert_id": due.cert_id, "user_id": due.user_id, "serial": renewed.serial, "name": due.domain_name}
    access_audit.record_other(conn, access_audit.SYSTEM, "certificate.renewed", detail)


def record_failure(conn: Connection, due: DueRenewal, error: str) -> None:
    """Keep the error with the certificate, and try again later. The same error again adds no audit row."""
    error = error[:ERROR_CHARACTERS_MAX]
    row = conn.one(SQL.failures, cert_id=due.cert_id)
    if row is None:
        return
    delay_ms = int(_retry_seconds(due.lifetime_seconds, row["renewal_failures"] + 1) * 1000)
    conn.run(SQL.fail, cert_id=due.cert_id, error=error, now_ms=conn.now_ms, renew_at=conn.now_ms + delay_ms)
    if error != row["renewal_error"]:
        detail = {"cert_id": due.cert_id, "user_id": due.user_id, "name": due.domain_name, "error": error}
        access_audit.record_other(conn, access_audit.SYSTEM, "certificate.renewal_failed", detail)


class RenewalCalendar:
    """Renews the certificates that are due, every half minute. With `renew_at_percent` 0 it does nothing."""

    def __init__(self, database: Database, master_key: MasterKey, emit: Emit, rules: IssueRules) -> None:
        self._database = database
        self._master_key = master_key
        self._emit = emit
        self._rules = rules
        # Counted since the start, for the metrics.
        self.renewed = self.failed = 0
        self._wakeup = Wakeup()
        self.stop = self._wakeup.stop

    async def run(self) -> None:
        while self._rules.renew_at_percent and not self._wakeup.is_stopping:
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("renewal of certificates failed, will retry", error=str(error))
            await self._wakeup.pause(INTERVAL_SECONDS)

    async def run_once(self) -> int:
        """Renew all certificates that are due; return how many were renewed."""
        renewed = 0
        while due := await self._database.write(lease_due, self._rules):
            for each in due:
                if self._wakeup.is_stopping:
                    return renewed
                renewed += await self._renew(each)
        return renewed

    async def _renew(self, due: DueRenewal) -> bool:
        try:
            issued = await asyncio.to_thread(make, due, self._master_key)
            await self._database.write(store, self._emit, due, issued)
        except RestanteError as error:
            log.warning("certificate not renewed", cert_id=due.cert_id, error=error.message)
            await self._database.write(record_failure, due, error.message)
            self.failed += 1
            return False
        log.info("certificate renewed", cert_id=due.cert_id)
        self.renewed += 1
        return True


def _due(conn: Connection, row: Row, rules: IssueRules) -> DueRenewal:
    plan, error = None, ""
    try:
        plan = issuing.plan(conn, row["user_id"], row["id"], rules)
    except RestanteError as refused:
        error = refused.message
    lifetime_seconds = (row["not_after"] - row["not_before"]) // 1000
    return DueRenewal(row["id"], row["user_id"], row["domain_name"], row["not_after"], lifetime_seconds, plan, error)


def _retry_seconds(lifetime_seconds: int, failures: int) -> float:
    """Short-lived certificates are tried again sooner."""
    first = min(max(lifetime_seconds / 50, _RETRY_SECONDS_MIN), _RETRY_SECONDS_FIRST_MAX)
    delay = Backoff(first, _RETRY_SECONDS_MAX, _ATTEMPTS_MAX).delay_seconds(failures)
    return _RETRY_SECONDS_MAX if delay is None else delay
