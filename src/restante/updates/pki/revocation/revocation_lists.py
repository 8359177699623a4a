"""Revocation lists (CRLs, RFC 5280) of users' authorities: signed when one is due, stored and numbered.

    fetch ─▶ the stored list is current ─▶ its bytes
          └▶ it is out of date, or half of its time is over ─▶ read serials ─▶ sign (no transaction) ─▶ store

A list is out of date as soon as a revocation was committed that it does not name. Of several nodes that sign at once,
one stores its list, and all send that one. A revoked authority has no key: its last list is sent unchanged.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from restante.core.errors import NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.master_key import MasterKey
from restante.updates.pki.crypto.sealing import AUTHORITY_KEY_PURPOSE
from restante.updates.pki.crypto.x509 import authority_identifier, load_signing_key, serial_number, utc_datetime

SQL = queries_beside(__file__)

HOUR_MS = 3_600_000

_REASONS = {
    "key_compromise": x509.ReasonFlags.key_compromise,
    "affiliation_changed": x509.ReasonFlags.affiliation_changed,
    "superseded": x509.ReasonFlags.superseded,
    "cessation_of_operation": x509.ReasonFlags.cessation_of_operation,
    "privilege_withdrawn": x509.ReasonFlags.privilege_withdrawn,
}


@dataclass(frozen=True, slots=True)
class RevocationList:
    """A signed list. Times are milliseconds since the epoch."""

    number: int
    der: bytes
    this_update: int
    next_update: int

    @property
    def pem(self) -> bytes:
        return x509.load_der_x509_crl(self.der).public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True, slots=True)
class ListPlan:
    """What the next list of an authority says."""

    ca_id: int
    certificate_der: bytes
    sealed_key: bytes
    number: int
    revision: int
    now_ms: int
    revoked: list[tuple[str, int, str]]


def current_or_plan(conn: Connection, ca_id: int, serial: str) -> RevocationList | ListPlan:
    """The stored list if it is current, else the plan of the next one; raises NotFound.

    Both id and serial of the authority must fit: a stranger cannot find authorities by counting.
    """
    row = conn.one(SQL.authority, ca_id=ca_id, serial=serial)
    if row is None:
        raise NotFound("there is no such revocation list")
    stored = _stored(row)
    if stored is not None and (row["sealed_key"] is None or not _is_due(row, stored, conn.now_ms)):
        return stored
    if row["sealed_key"] is None or not signs_lists(x509.load_der_x509_certificate(row["certificate_der"])):
        raise NotFound("the authority signs no revocation lists")
    revoked = [
        (each["serial"], each["revoked_at"], each["reason"])
        for each in conn.all(SQL.revoked, ca_id=ca_id, ended_after=conn.now_ms - HOUR_MS)
    ]
    number, revision = (row["number"] or 0) + 1, row["revision"] or 0
    return ListPlan(ca_id, row["certificate_der"], row["sealed_key"], number, revision, conn.now_ms, revoked)


def sign(plan: ListPlan, master_key: MasterKey, valid_hours: int) -> RevocationList:
    """Sign the list. Takes seconds for a hundred thousand serials."""
    certificate = x509.load_der_x509_certificate(plan.certificate_der)
    now = utc_datetime(plan.now_ms)
    next_update = now + timedelta(hours=valid_hours)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now)
        .next_update(next_update)
        .add_extension(x509.CRLNumber(plan.number), critical=False)
        .add_extension(authority_identifier(certificate), critical=False)
    )
    for serial, revoked_at, reason in plan.revoked:
        builder = builder.add_revoked_certificate(_entry(serial, utc_datetime(revoked_at), reason))
    key = load_signing_key(master_key.open(plan.sealed_key, AUTHORITY_KEY_PURPOSE))
    der = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    return RevocationList(plan.number, der, _ms(now), _ms(next_update))


def store(conn: Connection, plan: ListPlan, made: RevocationList) -> RevocationList:
    """Store the list, unless another node has stored one of its number; return the stored one."""
    conn.lock("revocation list", plan.ca_id)
    conn.run(
        SQL.store,
        ca_id=plan.ca_id,
        number=made.number,
        revision=plan.revision,
        der=made.der,
        this_update=made.this_update,
        next_update=made.next_update,
    )
    row = conn.one(SQL.stored, ca_id=plan.ca_id)
    stored = None if row is None else _stored(row)
    return made if stored is None else stored


def signs_lists(certificate: x509.Certificate) -> bool:
    """Whether the authority's key usage allows it to sign revocation lists."""
    try:
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.crl_sign
    except x509.ExtensionNotFound:
        return True


def path_of(ca_id: int, serial: str) -> str:
    """The path of an authority's list in DER."""
    return f"/crl/{ca_id}/{serial.replace(':', '')}/list.crl"


def _stored(row: Row) -> RevocationList | None:
    if row["der"] is None:
        return None
    return RevocationList(row["number"], row["der"], row["this_update"], row["next_update"])


def _is_due(row: Row, stored: RevocationList, now_ms: int) -> bool:
    refresh_at = (stored.this_update + stored.next_update) // 2
    return bool(row["revision"] != row["listed_revision"]) or now_ms >= refresh_at


def _entry(serial: str, revoked_at: datetime, reason: str) -> x509.RevokedCertificate:
    entry = x509.RevokedCertificateBuilder().serial_number(serial_number(serial)).revocation_date(revoked_at)
    flag = _REASONS.get(reason)
    # RFC 5280, 5.3.1: an unspecified reason is left out.
    return (entry if flag is None else entry.add_extension(x509.CRLReason(flag), critical=False)).build()


def _ms(time: datetime) -> int:
    return int(time.timestamp()) * 1000
