"""Which device has which certificate, and whether its data key is wrapped for the device yet.

An assignment stores the pending sentinel and wakes the wrap worker; it never wraps a key itself. Repeating it changes
nothing and sends no signal. A device reads a certificate only through its own row here, so a certificate that is
missing, not assigned or another user's gives it the same error.
"""

from base64 import b64encode
from typing import ClassVar

import msgspec

from restante.core.errors import Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit, Signal
from restante.updates import signal_types
from restante.updates.devices.ownership import get_active_device, get_owned_device
from restante.updates.pki.crypto.sealing import ENC_SCHEME, PENDING_WRAP, WRAP_ALG

SQL = queries_beside(__file__)


class WrapsPending(ClusterMessage, frozen=True, tag="wraps"):
    """Commit event: there may be data keys to wrap."""

    work_role: ClassVar[str] = "wrapping"


class CertificateAssignment(msgspec.Struct):
    """A certificate of a device. Clients in the field read its id as `id`, others as `cert_id`."""

    id: int
    device_id: int
    cert_id: int
    domain_name: str
    wrap_status: str
    wrap_alg: str
    device_keyfp_b64: str
    assigned_at: Timestamp


class DeviceCertificate(msgspec.Struct, kw_only=True):
    """A certificate for its device, without the key. Agents read its times in seconds since the epoch."""

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
    """Everything a device needs to use a certificate. Only the device's private key opens enc_data_key."""

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
    device = get_active_device(conn, user_id, device_id)
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
    refresh_expiry(conn, cert_id)
    conn.add_commit_event(WrapsPending())
    row = conn.one(SQL.assignment, cert_id=cert_id, device_id=device_id)
    assert row is not None  # noqa: S101 — it existed or was written just now
    return _assignment(row)


def is_assigned(conn: Connection, device_id: int, cert_id: int) -> bool:
    return conn.one(SQL.assignment, cert_id=cert_id, device_id=device_id) is not None


def unassign(conn: Connection, emit: Emit, user_id: int, device_id: int, cert_id: int) -> None:
    get_active_device(conn, user_id, device_id)
    _owned_status(conn, user_id, cert_id)
    conn.all(SQL.lock_holders, cert_id=cert_id)
    conn.run(SQL.refresh_without, cert_id=cert_id, device_id=device_id)
    if not conn.run(SQL.unassign, cert_id=cert_id, device_id=device_id):
        raise NotFound("the device does not have this certificate")
    emit_removed(conn, emit, device_id, cert_id)


def refresh_expiry(conn: Connection, cert_id: int) -> None:
    """Store for each device that has the certificate when the first of its certificates ends.

    To be called after the certificate or its assignments have changed, and before it is unassigned everywhere.
    """
    conn.all(SQL.lock_holders, cert_id=cert_id)
    conn.run(SQL.refresh_holders, cert_id=cert_id)


def emit_removed(conn: Connection, emit: Emit, device_id: int, cert_id: int) -> None:
    """Send the device the signals of a certificate that it no longer has."""
    for type in (signal_types.CERT_REVOKED, signal_types.CERT_UNASSIGNED):
        emit(conn, device_id, Signal(type, conn.now_ms, {"cert_id": cert_id}))


def list_of_device(conn: Connection, user_id: int, device_id: int, window: PageRequest) -> Page[CertificateAssignment]:
    get_owned_device(conn, user_id, device_id)
    rows = conn.all(SQL.list_of_device, device_id=device_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "cert_record_id", _assignment)


def active_holders(conn: Connection, cert_id: int) -> list[int]:
    """The devices that get a signal when the certificate changes; a revoked device gets none."""
    return [row["device_id"] for row in conn.all(SQL.active_holders, cert_id=cert_id)]


def reset_wraps_of_certificate(conn: Connection, cert_id: int) -> None:
    """Set all wraps to pending: the certificate has a new data key, so its old wraps are useless."""
    conn.run(SQL.reset_wraps_of_certificate, cert_id=cert_id, pending=PENDING_WRAP)
    conn.add_commit_event(WrapsPending())


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
        raise Conflict("WRAP_PENDING: the key is being wrapped for this device; try again later")
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
        # The wrap is pending here too. Clients that read WRAP_PENDING retry later, which is right in both cases.
        raise Conflict("WRAP_PENDING: the certificate is not issued yet")
    return row


def _owned_status(conn: Connection, user_id: int, cert_id: int) -> str:
    row = conn.one(SQL.owned_status, user_id=user_id, cert_id=cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    return str(row["status"])


def _assignment(row: Row) -> CertificateAssignment:
    return CertificateAssignment(
        row["cert_record_id"],
        row["device_id"],
        row["cert_record_id"],
        row["domain_name"],
        "pending" if row["enc_data_key"] == PENDING_WRAP else "ready",
        row["wrap_alg"],
        _base64(row["device_keyfp"]),
        iso_precise(row["assigned_at"]),
    )


def _base64(blob: bytes) -> str:
    return b64encode(blob).decode()


def reset_wraps_of_device(conn: Connection, device_id: int, device_keyfp: bytes) -> None:
    """Set the device's wraps to pending: it has a new key, so wraps for the old one are useless."""
    conn.run(SQL.reset_wraps_of_device, device_id=device_id, device_keyfp=device_keyfp, pending=PENDING_WRAP)
    conn.add_commit_event(WrapsPending())
