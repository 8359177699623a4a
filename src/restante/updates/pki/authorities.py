"""Certificate authorities of users: their rows, the devices that must trust them, the signals to those devices.

An authority is active until it is revoked. Revocation is final: its private key is dropped, so it issues nothing more,
and it is unassigned from every device. Repeating an assignment changes nothing and sends no signal.
"""

from base64 import b64encode
from dataclasses import dataclass

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from restante.core.errors import Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit, Signal
from restante.updates import signal_types
from restante.updates.devices.ownership import check_user, get_active_device, get_owned_device
from restante.updates.pki.crypto.key_options import key_usage_text
from restante.updates.pki.crypto.x509 import CURVES, as_der, as_pem, epoch_ms, serial_text

SQL = queries_beside(__file__)


class Authority(msgspec.Struct, kw_only=True):
    id: int
    name: str
    status: str
    common_name: str
    algorithm: str
    key_size: int
    curve_name: str | None
    serial_number: str
    valid_days: int
    not_before: Timestamp
    not_after: Timestamp
    key_usage: str | None
    ca_certificate_pem: str
    created_at: Timestamp
    revoked_at: Timestamp | None
    devices_count: int


class AuthorityBundle(msgspec.Struct, kw_only=True):
    """The authority that a device installs into its trust stores."""

    id: int
    name: str
    serial_number: str
    status: str
    algorithm: str
    key_size: int
    valid_days: int
    ca_certificate_pem: str
    ca_certificate_der_b64: str


class AuthorityAssignment(msgspec.Struct):
    """An authority of a device. Clients in the field read its id as `id`, others as `ca_id`."""

    id: int
    device_id: int
    ca_id: int
    ca_name: str
    serial: str
    assigned_at: Timestamp


@dataclass(frozen=True, slots=True)
class SealedAuthority:
    """A new authority, ready to be stored."""

    name: str
    certificate: x509.Certificate
    sealed_key: bytes


def add(conn: Connection, user_id: int, authority: SealedAuthority) -> Authority:
    check_user(conn, user_id)
    certificate = authority.certificate
    row = conn.one(
        SQL.add,
        user_id=user_id,
        name=authority.name,
        common_name=_common_name(certificate) or authority.name,
        **_key_columns(certificate),
        serial=serial_text(certificate),
        valid_days=(certificate.not_valid_after_utc - certificate.not_valid_before_utc).days,
        not_before=epoch_ms(certificate.not_valid_before_utc),
        not_after=epoch_ms(certificate.not_valid_after_utc),
        certificate_der=as_der(certificate),
        sealed_key=authority.sealed_key,
        now_ms=conn.now_ms,
    )
    assert row is not None  # noqa: S101 — an INSERT with RETURNING returns its row or raises
    conn.run(SQL.set_expiry_key, ca_id=row["id"])
    return get(conn, user_id, row["id"])


def get(conn: Connection, user_id: int, ca_id: int) -> Authority:
    return _authority(_owned_row(conn, user_id, ca_id))


def list_of_user(conn: Connection, user_id: int, window: PageRequest) -> Page[Authority]:
    check_user(conn, user_id)
    rows = conn.all(SQL.list_of_user, user_id=user_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", _authority)


def revoke(conn: Connection, emit: Emit, user_id: int, ca_id: int) -> Authority:
    """Revoke the authority. Revoking it again changes nothing."""
    conn.lock("authority", ca_id)
    row = _owned_row(conn, user_id, ca_id)
    if conn.run(SQL.revoke, ca_id=ca_id, now_ms=conn.now_ms):
        for holder in conn.all(SQL.active_holders, ca_id=ca_id):
            emit(conn, holder["device_id"], _signal(conn, signal_types.CA_UNASSIGNED, row))
        conn.run(SQL.unassign_everywhere, ca_id=ca_id)
    return get(conn, user_id, ca_id)


def assign(conn: Connection, emit: Emit, user_id: int, device_id: int, ca_id: int) -> AuthorityAssignment:
    conn.lock("authority", ca_id)
    get_active_device(conn, user_id, device_id)
    row = _owned_row(conn, user_id, ca_id)
    if row["status"] != "active":
        raise Conflict("the certificate authority is revoked")
    if conn.run(SQL.assign, device_id=device_id, ca_id=ca_id, now_ms=conn.now_ms):
        emit(conn, device_id, _signal(conn, signal_types.CA_ASSIGNED, row))
    assigned = conn.one(SQL.assignment, device_id=device_id, ca_id=ca_id)
    assert assigned is not None  # noqa: S101 — it existed or was written just now
    return _assignment(assigned)


def unassign(conn: Connection, emit: Emit, user_id: int, device_id: int, ca_id: int) -> None:
    get_active_device(conn, user_id, device_id)
    row = _owned_row(conn, user_id, ca_id)
    if not conn.run(SQL.unassign, device_id=device_id, ca_id=ca_id):
        raise NotFound("the device does not have this certificate authority")
    emit(conn, device_id, _signal(conn, signal_types.CA_UNASSIGNED, row))


def list_of_device(conn: Connection, user_id: int, device_id: int, window: PageRequest) -> Page[AuthorityAssignment]:
    get_owned_device(conn, user_id, device_id)
    rows = conn.all(SQL.list_of_device, device_id=device_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "ca_id", _assignment)


def bundle(conn: Connection, device_id: int, ca_id: int) -> AuthorityBundle:
    """The authority that the device fetches after `ca.assigned`."""
    row = conn.one(SQL.of_device, device_id=device_id, ca_id=ca_id)
    if row is None:
        raise NotFound("this device has no such certificate authority")
    return AuthorityBundle(
        id=row["id"],
        name=row["name"],
        serial_number=row["serial"],
        status=row["status"],
        algorithm=row["algorithm"],
        key_size=row["key_size"],
        valid_days=row["valid_days"],
        ca_certificate_pem=as_pem(x509.load_der_x509_certificate(row["certificate_der"])),
        ca_certificate_der_b64=b64encode(row["certificate_der"]).decode(),
    )


def _owned_row(conn: Connection, user_id: int, ca_id: int) -> Row:
    row = conn.one(SQL.get, user_id=user_id, ca_id=ca_id)
    if row is None:
        raise NotFound("there is no such certificate authority")
    return row


def _signal(conn: Connection, type: str, row: Row) -> Signal:
    return Signal(type, conn.now_ms, {"ca_id": row["id"], "serial": row["serial"], "ca_name": row["name"]})


def _key_columns(certificate: x509.Certificate) -> dict[str, str | int | None]:
    key = certificate.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        curve = next(name for name, curve_type in CURVES.items() if isinstance(key.curve, curve_type))
        return {"algorithm": "ECDSA", "key_size": key.key_size, "curve_name": curve}
    if isinstance(key, rsa.RSAPublicKey):
        return {"algorithm": "RSA", "key_size": key.key_size, "curve_name": None}
    raise TypeError("an authority's key is ECDSA or RSA")


def _common_name(certificate: x509.Certificate) -> str | None:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else None


def _authority(row: Row) -> Authority:
    certificate = x509.load_der_x509_certificate(row["certificate_der"])
    return Authority(
        id=row["id"],
        name=row["name"],
        status=row["status"],
        common_name=row["common_name"],
        algorithm=row["algorithm"],
        key_size=row["key_size"],
        curve_name=row["curve_name"],
        serial_number=row["serial"],
        valid_days=row["valid_days"],
        not_before=iso_precise(row["not_before"]),
        not_after=iso_precise(row["not_after"]),
        key_usage=key_usage_text(certificate),
        ca_certificate_pem=as_pem(certificate),
        created_at=iso_precise(row["created_at"]),
        revoked_at=iso_precise(row["revoked_at"]),
        devices_count=row["devices_count"],
    )


def _assignment(row: Row) -> AuthorityAssignment:
    return AuthorityAssignment(
        row["ca_id"], row["device_id"], row["ca_id"], row["name"], row["serial"], iso_precise(row["assigned_at"])
    )
