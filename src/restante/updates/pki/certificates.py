"""Certificates: their records from creation to revocation, for operators.

    create ─▶ pending ──issue──▶ issued ──issue (renew)──▶ issued
    import ────────────────────────▲  └──────revoke──────▶ revoked   (pending can be revoked too)

Revocation drops the key material, unassigns the certificate from every device and sends active devices a signal. A
record is never deleted, so that its id keeps its meaning in install configs and signals.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from restante.core.decoding import DIGITS
from restante.core.errors import BadInput, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit
from restante.identity import access_audit
from restante.updates.devices.ownership import check_user
from restante.updates.pki import assignments
from restante.updates.pki.crypto.issued_certificate import IssuedCertificate
from restante.updates.pki.crypto.x509 import NO_SUBJECT, CertificateSubject
from restante.updates.pki.revocation import issued_serials
from restante.updates.pki.revocation.issued_serials import Reason

SQL = queries_beside(__file__)

SUBJECT_COLUMNS = ("organization", "organizational_unit", "country", "state", "locality")


class Certificate(msgspec.Struct, kw_only=True):
    id: int
    domain_name: str
    sans: list[str]
    acct_id: int | None
    organization: str | None
    organizational_unit: str | None
    country: str | None
    state: str | None
    locality: str | None
    status: str
    serial: str | None
    issuer: str | None
    not_before: Timestamp | None
    not_after: Timestamp | None
    devices_count: int
    created_at: Timestamp
    updated_at: Timestamp
    revoked_at: Timestamp | None
    auto_renew: bool


class CertificateDetail(Certificate, kw_only=True):
    certificate_pem: str | None
    chain_pem: str | None


def create(
    conn: Connection, user_id: int, names: list[str], acct_id: int, subject: CertificateSubject = NO_SUBJECT
) -> CertificateDetail:
    """Create a record that is not issued yet. The first name is its domain name, which is also the common name."""
    check_user(conn, user_id)
    if conn.one(SQL.own_account, user_id=user_id, acct_id=acct_id) is None:
        raise BadInput("acct_id", "the id of an account of this user")
    row = conn.one(
        SQL.create,
        user_id=user_id,
        acct_id=acct_id,
        domain_name=names[0],
        sans=msgspec.json.encode(names).decode(),
        now_ms=conn.now_ms,
        **{column: getattr(subject, column) for column in SUBJECT_COLUMNS},
    )
    return _added(conn, user_id, row)


def add_imported(
    conn: Connection, user_id: int, domain_name: str, names: list[str], issued: IssuedCertificate
) -> CertificateDetail:
    """Store a certificate that was issued elsewhere. It has no account, so it cannot be issued again here."""
    check_user(conn, user_id)
    row = conn.one(
        SQL.add_imported,
        user_id=user_id,
        domain_name=domain_name,
        sans=msgspec.json.encode(names).decode(),
        now_ms=conn.now_ms,
        **issued.columns(),
    )
    added = _added(conn, user_id, row)
    conn.run(SQL.set_expiry_key, cert_id=added.id)
    return added


def get(conn: Connection, user_id: int, cert_id: int) -> CertificateDetail:
    row = _owned_row(conn, user_id, cert_id)
    return CertificateDetail(**_fields(row), certificate_pem=row["certificate_pem"], chain_pem=row["chain_pem"])


def list_of_user(conn: Connection, user_id: int, window: PageRequest) -> Page[Certificate]:
    check_user(conn, user_id)
    rows = conn.all(SQL.list_of_user, user_id=user_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", lambda row: Certificate(**_fields(row)))


@dataclass(frozen=True, slots=True)
class FoundCertificate:
    """A certificate that a search found. `device_id`: a device that has it; None if no device does."""

    id: int
    user_id: int
    domain_name: str
    status: str
    device_id: int | None


def find(conn: Connection, text: str, limit: int) -> list[FoundCertificate]:
    """Certificates of any user with this id, domain name or serial number."""
    cert_id = int(text) if DIGITS.fullmatch(text) and len(text) < 19 else None
    rows = conn.all(SQL.find, cert_id=cert_id, text=text, limit=limit)
    return [
        FoundCertificate(row["id"], row["user_id"], row["domain_name"], row["status"], row["device_id"]) for row in rows
    ]


def revoke(
    conn: Connection,
    emit: Emit,
    user_id: int,
    cert_id: int,
    reason: Reason = "unspecified",
    actor: str = access_audit.SYSTEM,
) -> CertificateDetail:
    """Revoke the certificate with all its serials that have not ended. Revoking it again changes nothing."""
    conn.lock("certificate", cert_id)
    row = _owned_row(conn, user_id, cert_id)
    if conn.run(SQL.revoke, cert_id=cert_id, now_ms=conn.now_ms):
        count = issued_serials.revoke(conn, cert_id, reason)
        detail = {"cert_id": cert_id, "user_id": user_id, "serial": row["serial"], "reason": reason, "serials": count}
        access_audit.record_other(conn, actor, "certificate.revoked", detail)
        for device_id in assignments.active_holders(conn, cert_id):
            assignments.emit_removed(conn, emit, device_id, cert_id)
        assignments.refresh_expiry(conn, cert_id)
        assignments.unassign_everywhere(conn, cert_id)
    return get(conn, user_id, cert_id)


def set_auto_renew(
    conn: Connection, user_id: int, cert_id: int, is_on: bool, renew_at_percent: int
) -> CertificateDetail:
    """Let the certificate be renewed by itself after that share of its life, or not; 0: never."""
    conn.lock("certificate", cert_id)
    row = _owned_row(conn, user_id, cert_id)
    renew_at = None
    if is_on and renew_at_percent and conn.one(SQL.renewable, cert_id=cert_id) is not None:
        renew_at = row["not_before"] + (row["not_after"] - row["not_before"]) * renew_at_percent // 100
    conn.run(SQL.set_auto_renew, cert_id=cert_id, auto_renew=int(is_on), renew_at=renew_at, now_ms=conn.now_ms)
    return get(conn, user_id, cert_id)


def _added(conn: Connection, user_id: int, row: Row | None) -> CertificateDetail:
    assert row is not None  # noqa: S101 — an INSERT with RETURNING returns its row or raises
    return get(conn, user_id, row["id"])


def _owned_row(conn: Connection, user_id: int, cert_id: int) -> Row:
    row = conn.one(SQL.get, user_id=user_id, cert_id=cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    return row


def _fields(row: Row) -> dict[str, Any]:
    """The fields of every view of a certificate."""
    same = ("id", "domain_name", "acct_id", "status", "serial", "issuer", "devices_count", *SUBJECT_COLUMNS)
    times = ("not_before", "not_after", "created_at", "updated_at", "revoked_at")
    return {
        "sans": msgspec.json.decode(row["sans"], type=list[str]),
        **{column: row[column] for column in same},
        "auto_renew": bool(row["auto_renew"]),
        **{column: iso_precise(row[column]) for column in times},
    }
