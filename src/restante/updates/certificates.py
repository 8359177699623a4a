"""Certificates: their records from creation to revocation, as operators see them.

    create ─▶ pending ──issue──▶ issued ──issue (renew)──▶ issued
    import ────────────────────────▲  └──────revoke──────▶ revoked   (pending can be revoked too)

Revoking drops the key material, takes the certificate from every device and tells those that are active. A
record is never removed, so that its id stays what install configs and signals said it was.
"""

from typing import Any

import msgspec

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.signals import Emit, Signal
from restante.updates import assignments
from restante.updates.material import IssueMaterial
from restante.updates.ownership import require_user
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)


class Certificate(msgspec.Struct, kw_only=True):
    id: int
    domain_name: str
    sans: list[str]
    acct_id: int | None
    status: str
    serial: str | None
    issuer: str | None
    not_before: int | None
    not_after: int | None
    devices_count: int
    created_at: int
    updated_at: int
    revoked_at: int | None


class CertificateDetail(Certificate, kw_only=True):
    certificate_pem: str | None
    chain_pem: str | None


def create(conn: Connection, user_id: int, names: list[str], acct_id: int) -> CertificateDetail:
    """A record that is still to be issued; the first of its names is its domain name."""
    require_user(conn, user_id)
    if conn.one(SQL.own_account, user_id=user_id, acct_id=acct_id) is None:
        raise BadInput("acct_id", "the id of an account of this user")
    row = conn.one(
        SQL.create,
        user_id=user_id,
        acct_id=acct_id,
        domain_name=names[0],
        sans=msgspec.json.encode(names).decode(),
        now_ms=conn.now_ms,
    )
    return _added(conn, user_id, row)


def add_imported(
    conn: Connection, user_id: int, domain_name: str, names: list[str], material: IssueMaterial
) -> CertificateDetail:
    """A record of a certificate issued elsewhere. It has no account, so it cannot be issued again here."""
    require_user(conn, user_id)
    row = conn.one(
        SQL.add_imported,
        user_id=user_id,
        domain_name=domain_name,
        sans=msgspec.json.encode(names).decode(),
        now_ms=conn.now_ms,
        **material.columns(),
    )
    return _added(conn, user_id, row)


def get(conn: Connection, user_id: int, cert_id: int) -> CertificateDetail:
    row = _owned_row(conn, user_id, cert_id)
    return CertificateDetail(**_seen(row), certificate_pem=row["certificate_pem"], chain_pem=row["chain_pem"])


def list_of_user(conn: Connection, user_id: int, window: Window) -> Page[Certificate]:
    require_user(conn, user_id)
    rows = conn.all(SQL.list_of_user, user_id=user_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", lambda row: Certificate(**_seen(row)))


def revoke(conn: Connection, emit: Emit, user_id: int, cert_id: int) -> CertificateDetail:
    """End the certificate. Revoking it again changes nothing."""
    conn.lock("certificate", cert_id)
    _owned_row(conn, user_id, cert_id)
    if conn.run(SQL.revoke, cert_id=cert_id, now_ms=conn.now_ms):
        for device_id in assignments.active_holders(conn, cert_id):
            emit(conn, device_id, Signal("cert.revoked", conn.now_ms, {"cert_id": cert_id}))
        assignments.unassign_everywhere(conn, cert_id)
    return get(conn, user_id, cert_id)


def _added(conn: Connection, user_id: int, row: Row | None) -> CertificateDetail:
    assert row is not None  # noqa: S101 — an INSERT with RETURNING answers its row, or raises
    return get(conn, user_id, row["id"])


def _owned_row(conn: Connection, user_id: int, cert_id: int) -> Row:
    row = conn.one(SQL.get, user_id=user_id, cert_id=cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    return row


def _seen(row: Row) -> dict[str, Any]:
    """What every view of a certificate shows."""
    same = ("id", "domain_name", "acct_id", "status", "serial", "issuer", "devices_count")
    times = ("not_before", "not_after", "created_at", "updated_at", "revoked_at")
    return {
        "sans": msgspec.json.decode(row["sans"], type=list[str]),
        **{column: row[column] for column in same},
        **{column: None if row[column] is None else row[column] // 1000 for column in times},
    }
