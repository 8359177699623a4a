"""Issuing and renewing: read what is needed, make key and certificate outside any transaction, store them.

    plan (read) ─▶ carry_out (no transaction, off the writer's thread) ─▶ store (write, checks the plan again)

What was planned may have changed meanwhile: the record revoked, its authority revoked, or issued by somebody
else. `store` then refuses and nothing is changed, so that of two renewals at once exactly one counts. Every
issue has its own private key and data key; the devices' wraps go back to pending in the same transaction.
"""

from typing import NamedTuple

import msgspec
from cryptography import x509

from restante.core.errors import Conflict, NotFound, Unprocessable
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.signals import Emit, Signal
from restante.identity.master_key import MasterKey
from restante.updates import assignments, certificates
from restante.updates.material import IssueMaterial, seal_material
from restante.updates.sealing import AUTHORITY_KEY_PURPOSE
from restante.updates.x509 import AuthorityExpired, Keyed, at_moment, issue_leaf, serial_text

SQL = queries_beside(__file__)


class IssuePlan(NamedTuple):
    user_id: int
    cert_id: int
    names: list[str]
    issue_number: int
    ca_certificate_der: bytes
    ca_sealed_key: bytes
    now_ms: int


def plan(conn: Connection, user_id: int, cert_id: int) -> IssuePlan:
    """What the next issue is made of, or why there can be none."""
    row = conn.one(SQL.issuing_facts, user_id=user_id, cert_id=cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    _require_issuable(row)
    return IssuePlan(
        user_id,
        cert_id,
        msgspec.json.decode(row["sans"], type=list[str]),
        row["issue_number"] + 1,
        row["ca_certificate_der"],
        row["ca_sealed_key"],
        conn.now_ms,
    )


def carry_out(plan: IssuePlan, master_key: MasterKey, validity_seconds: int) -> IssueMaterial:
    ca_certificate = x509.load_der_x509_certificate(plan.ca_certificate_der)
    authority = Keyed(ca_certificate, master_key.open(plan.ca_sealed_key, AUTHORITY_KEY_PURPOSE))
    try:
        leaf = issue_leaf(authority, plan.names, at_moment(plan.now_ms), validity_seconds)
    except AuthorityExpired:
        raise Conflict("the certificate authority's own certificate is not valid now") from None
    return seal_material(leaf, [ca_certificate], master_key)


def store(conn: Connection, emit: Emit, plan: IssuePlan, material: IssueMaterial) -> certificates.CertificateDetail:
    """Make the material the certificate's present one, and tell the devices that had an earlier one."""
    conn.lock("certificate", plan.cert_id)
    row = conn.one(SQL.issuing_facts, user_id=plan.user_id, cert_id=plan.cert_id)
    if row is None:
        raise NotFound("there is no such certificate")
    _require_issuable(row)
    if row["issue_number"] + 1 != plan.issue_number:
        raise Conflict("the certificate was issued by somebody else at the same time")
    conn.run(
        SQL.store,
        cert_id=plan.cert_id,
        issue_number=plan.issue_number,
        now_ms=conn.now_ms,
        **material.columns(),
    )
    assignments.set_back_to_pending(conn, plan.cert_id)
    if row["status"] == "issued":
        ref = {"cert_id": plan.cert_id, "serial": serial_text(material.certificate)}
        for device_id in assignments.active_holders(conn, plan.cert_id):
            emit(conn, device_id, Signal("cert.renewed", conn.now_ms, ref))
    return certificates.get(conn, plan.user_id, plan.cert_id)


def _require_issuable(row: Row) -> None:
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
        raise Conflict("the certificate authority is revoked and issues nothing any more")
