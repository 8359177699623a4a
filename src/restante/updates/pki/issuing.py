"""Issuing and renewal: read the facts, make key and certificate outside any transaction, store them.

    plan (read) ─▶ make_certificate (no transaction, not on a writer thread) ─▶ store (write, checks the plan again)

The facts may have changed meanwhile: the record or its authority was revoked, or another request issued the
certificate. `store` then raises and changes nothing, so that of two concurrent renewals exactly one counts. Every issue
has its own private key and data key; the devices' wraps become pending again in the same transaction.
"""

from dataclasses import dataclass

import msgspec
from cryptography import x509

from restante.core.errors import Conflict, NotFound, Unprocessable
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit, Signal
from restante.identity.master_key import MasterKey
from restante.updates import signal_types
from restante.updates.pki import assignments, certificates
from restante.updates.pki.crypto.issued_certificate import IssuedCertificate, seal_certificate
from restante.updates.pki.crypto.key_options import CURVE_DEFAULT, LEAF_RSA_SIZE_DEFAULT, LeafKey
from restante.updates.pki.crypto.sealing import AUTHORITY_KEY_PURPOSE
from restante.updates.pki.crypto.x509 import (
    AuthorityExpired,
    CertificateSubject,
    CertificateWithKey,
    epoch_ms,
    issue_leaf,
    new_signing_key,
    serial_text,
    utc_datetime,
)
from restante.updates.pki.revocation import issued_serials, revocation_lists

SQL = queries_beside(__file__)

DAY_SECONDS = 24 * 60 * 60
VALIDITY_SECONDS_DEFAULT = 90 * DAY_SECONDS
VALIDITY_SECONDS_MIN = 300
VALIDITY_SECONDS_MAX = 3650 * DAY_SECONDS


@dataclass(frozen=True, slots=True)
class IssueRules:
    """`public_url`: with it, certificates name the revocation list of their authority. `renew_at_percent`: the share of
    its life after which a certificate is renewed by itself; 0: never."""

    public_url: str | None = None
    renew_at_percent: int = 0


NO_RULES = IssueRules()


@dataclass(frozen=True, slots=True)
class IssuePlan:
    user_id: int
    cert_id: int
    names: list[str]
    issue_number: int
    subject: CertificateSubject
    leaf_key: LeafKey
    validity_seconds: int
    ca_id: int
    ca_certificate_der: bytes
    ca_sealed_key: bytes
    now_ms: int
    rules: IssueRules


def plan(conn: Connection, user_id: int, cert_id: int, rules: IssueRules = NO_RULES) -> IssuePlan:
    """The facts for the next issue; raises the reason if it cannot be issued."""
    row = conn.one(SQL.issuing_facts, user_id=user_id, cert_id=cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    _check_issuable(row)
    return IssuePlan(
        user_id,
        cert_id,
        msgspec.json.decode(row["sans"], type=list[str]),
        row["issue_number"] + 1,
        CertificateSubject(**{column: row[column] for column in certificates.SUBJECT_COLUMNS}),
        _leaf_key(row),
        row["cert_valid_seconds"] or VALIDITY_SECONDS_DEFAULT,
        row["ca_id"],
        row["ca_certificate_der"],
        row["ca_sealed_key"],
        conn.now_ms,
        rules,
    )


def make_certificate(plan: IssuePlan, master_key: MasterKey, validity_seconds: int | None = None) -> IssuedCertificate:
    """Make key and certificate, by default with the validity of the account. May take seconds."""
    ca_certificate = x509.load_der_x509_certificate(plan.ca_certificate_der)
    authority = CertificateWithKey(ca_certificate, master_key.open(plan.ca_sealed_key, AUTHORITY_KEY_PURPOSE))
    try:
        leaf = issue_leaf(
            authority,
            plan.names,
            utc_datetime(plan.now_ms),
            validity_seconds or plan.validity_seconds,
            plan.subject,
            new_signing_key(plan.leaf_key.curve, plan.leaf_key.rsa_bits),
            _crl_url(plan, ca_certificate),
        )
    except AuthorityExpired:
        raise Conflict("the certificate authority's own certificate is not valid now") from None
    return seal_certificate(leaf, [ca_certificate], master_key)


def store(conn: Connection, emit: Emit, plan: IssuePlan, issued: IssuedCertificate) -> certificates.CertificateDetail:
    """Store the issue as the current one, and send a signal to the devices if it is a renewal."""
    conn.lock("certificate", plan.cert_id)
    row = conn.one(SQL.issuing_facts, user_id=plan.user_id, cert_id=plan.cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    _check_issuable(row)
    if row["issue_number"] + 1 != plan.issue_number:
        raise Conflict("another request issued the certificate at the same time")
    conn.run(
        SQL.store,
        cert_id=plan.cert_id,
        issue_number=plan.issue_number,
        now_ms=conn.now_ms,
        renew_at=_renew_at(plan.rules, issued.certificate),
        **issued.columns(),
    )
    serial, not_after = serial_text(issued.certificate), epoch_ms(issued.certificate.not_valid_after_utc)
    issued_serials.add(conn, plan.ca_id, serial, plan.cert_id, not_after)
    assignments.reset_wraps_of_certificate(conn, plan.cert_id)
    assignments.refresh_expiry(conn, plan.cert_id)
    if row["status"] == "issued":
        ref = {"cert_id": plan.cert_id, "serial": serial}
        for device_id in assignments.active_holders(conn, plan.cert_id):
            emit(conn, device_id, Signal(signal_types.CERT_RENEWED, conn.now_ms, ref))
    return certificates.get(conn, plan.user_id, plan.cert_id)


def _crl_url(plan: IssuePlan, ca_certificate: x509.Certificate) -> str | None:
    if plan.rules.public_url is None or not revocation_lists.signs_lists(ca_certificate):
        return None
    path = revocation_lists.path_of(plan.ca_id, serial_text(ca_certificate))
    return plan.rules.public_url.rstrip("/") + path


def _renew_at(rules: IssueRules, certificate: x509.Certificate) -> int | None:
    start, end = epoch_ms(certificate.not_valid_before_utc), epoch_ms(certificate.not_valid_after_utc)
    return start + (end - start) * rules.renew_at_percent // 100 if rules.renew_at_percent else None


def _leaf_key(row: Row) -> LeafKey:
    """The kind of key of the certificate's account."""
    if row["leaf_key_algorithm"] == "RSA":
        return LeafKey(None, row["leaf_rsa_bits"] or LEAF_RSA_SIZE_DEFAULT)
    return LeafKey(row["leaf_ec_curve"] or CURVE_DEFAULT)


def _check_issuable(row: Row) -> None:
    if row["status"] == "revoked":
        raise Conflict("the certificate is revoked")
    if row["acct_id"] is None:
        raise Unprocessable(
            "the certificate has no account to be issued through: it was imported, or its account was deleted"
        )
    if row["ca_id"] is None:
        raise Unprocessable(
            "the account is not bound to a certificate authority of your own: public ACME providers need a "
            "reachable domain and are not served by this server; use an account with a ca_id"
        )
    if row["ca_status"] != "active":
        raise Conflict("the certificate authority is revoked and can no longer issue")
