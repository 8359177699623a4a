"""Which device has which certificate, and whether its data key is wrapped for the device yet.

Assigning writes the pending sentinel and rings the wrap worker; it never wraps itself. Assigning what is
assigned already changes nothing and tells nobody. A device reads its certificate only through its own row
here, so what is not assigned, absent or another's all look the same to it.
"""

from base64 import b64encode
from typing import NamedTuple

import msgspec

from restante.core.errors import Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.signals import Emit, Signal
from restante.updates.ownership import require_active_device, require_device
from restante.updates.sealing import ENC_SCHEME, PENDING_WRAP, WRAP_ALG
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)


class WrapsPending(NamedTuple):
    """Announced when there may be data keys to wrap."""


class CertificateAssignment(msgspec.Struct):
    device_id: int
    cert_id: int
    domain_name: str
    wrap_status: str
    wrap_alg: str
    device_keyfp_b64: str
    assigned_at: int


class DeviceCertificate(msgspec.Struct, kw_only=True):
    """A certificate as its device sees it, without the key."""

    id: int
    domain_name: str
    sans: list[str]
    status: str
    serial: str
    issuer: str
    not_before: int
    not_after: int
    certificate_pem: str
    chain_pem: str
    fullchain_pem: str


class CertificateBundle(msgspec.Struct, kw_only=True):
    """Everything a device needs to use a certificate; only its own private key opens enc_data_key."""

    id: int
    domain_name: str
    serial: str
    wrap_alg: str
    enc_scheme: str
    device_keyfp_b64: str
    enc_data_key_b64: str
    enc_privkey_b64: str
    privkey_nonce_b64: str
    privkey_tag_b64: str
    certificate_pem: str
    chain_pem: str
    fullchain_pem: str


def assign(conn: Connection, user_id: int, device_id: int, cert_id: int) -> CertificateAssignment:
    conn.lock("certificate", cert_id)
    device = require_active_device(conn, user_id, device_id)
    if _owned_status(conn, user_id, cert_id) == "revoked":
        raise Conflict("the certificate is revoked")
    conn.run(
        SQL.assign,
        cert_id=cert_id,
        device_id=device_id,
        device_keyfp=device.device_keyfp,
        wrap_alg=WRAP_ALG,
        pending=PENDING_WRAP,
        now_ms=conn.now_ms,
    )
    conn.announce(WrapsPending())
    row = conn.one(SQL.assignment, cert_id=cert_id, device_id=device_id)
    assert row is not None  # noqa: S101 — it was there or has just been written
    return _assignment(row)


def unassign(conn: Connection, emit: Emit, user_id: int, device_id: int, cert_id: int) -> None:
    require_active_device(conn, user_id, device_id)
    _owned_status(conn, user_id, cert_id)
    if not conn.run(SQL.unassign, cert_id=cert_id, device_id=device_id):
        raise NotFound("the device does not have this certificate")
    emit(conn, device_id, Signal("cert.revoked", conn.now_ms, {"cert_id": cert_id}))


def list_of_device(conn: Connection, user_id: int, device_id: int, window: Window) -> Page[CertificateAssignment]:
    require_device(conn, user_id, device_id)
    rows = conn.all(SQL.list_of_device, device_id=device_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "cert_record_id", _assignment)


def active_holders(conn: Connection, cert_id: int) -> list[int]:
    """The devices to tell about a change of the certificate; a revoked device is told nothing."""
    return [row["device_id"] for row in conn.all(SQL.active_holders, cert_id=cert_id)]


def set_back_to_pending(conn: Connection, cert_id: int) -> None:
    """The certificate has a new data key: what was wrapped before is worth nothing."""
    conn.run(SQL.set_back_to_pending, cert_id=cert_id, pending=PENDING_WRAP)
    conn.announce(WrapsPending())


def unassign_everywhere(conn: Connection, cert_id: int) -> None:
    conn.run(SQL.unassign_everywhere, cert_id=cert_id)


def device_certificate(conn: Connection, device_id: int, cert_id: int) -> DeviceCertificate:
    row = _issued_row(conn, device_id, cert_id)
    return DeviceCertificate(
        id=row["id"],
        domain_name=row["domain_name"],
        sans=msgspec.json.decode(row["sans"], type=list[str]),
        status=row["status"],
        serial=row["serial"],
        issuer=row["issuer"],
        not_before=row["not_before"] // 1000,
        not_after=row["not_after"] // 1000,
        certificate_pem=row["certificate_pem"],
        chain_pem=row["chain_pem"],
        fullchain_pem=row["certificate_pem"] + row["chain_pem"],
    )


def bundle(conn: Connection, device_id: int, cert_id: int) -> CertificateBundle:
    row = _issued_row(conn, device_id, cert_id)
    if row["enc_data_key"] == PENDING_WRAP:
        raise Conflict("WRAP_PENDING: the key is being wrapped for this device; ask again a little later")
    return CertificateBundle(
        id=row["id"],
        domain_name=row["domain_name"],
        serial=row["serial"],
        wrap_alg=row["wrap_alg"],
        enc_scheme=ENC_SCHEME,
        device_keyfp_b64=_base64(row["device_keyfp"]),
        enc_data_key_b64=_base64(row["enc_data_key"]),
        enc_privkey_b64=_base64(row["enc_privkey"]),
        privkey_nonce_b64=_base64(row["privkey_nonce"]),
        privkey_tag_b64=_base64(row["privkey_tag"]),
        certificate_pem=row["certificate_pem"],
        chain_pem=row["chain_pem"],
        fullchain_pem=row["certificate_pem"] + row["chain_pem"],
    )


def _issued_row(conn: Connection, device_id: int, cert_id: int) -> Row:
    row = conn.one(SQL.of_device, device_id=device_id, cert_id=cert_id)
    if row is None:
        raise NotFound("this device has no such certificate")
    if row["status"] != "issued":
        # The sentinel stands here too; clients that see the word come back later, which is right for both.
        raise Conflict("WRAP_PENDING: the certificate is not issued yet")
    return row


def _owned_status(conn: Connection, user_id: int, cert_id: int) -> str:
    row = conn.one(SQL.owned_status, user_id=user_id, cert_id=cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    return str(row["status"])


def _assignment(row: Row) -> CertificateAssignment:
    return CertificateAssignment(
        row["device_id"],
        row["cert_record_id"],
        row["domain_name"],
        "pending" if row["enc_data_key"] == PENDING_WRAP else "ready",
        row["wrap_alg"],
        _base64(row["device_keyfp"]),
        row["assigned_at"] // 1000,
    )


def _base64(blob: bytes) -> str:
    return b64encode(blob).decode()


def wrap_again(conn: Connection, device_id: int, device_keyfp: bytes) -> None:
    """The device has another key: what was wrapped for the old one is of no use to it."""
    conn.run(SQL.wrap_again, device_id=device_id, device_keyfp=device_keyfp, pending=PENDING_WRAP)
    conn.announce(WrapsPending())
