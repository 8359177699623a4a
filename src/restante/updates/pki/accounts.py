"""Accounts through which certificates are issued. An account that is bound to a user's authority issues from it.

An account without an authority cannot issue: public providers must reach the domain, and this server is not there. An
account may have defaults for its certificates: their validity and the kind of their keys. Deleting an account keeps its
certificates; they can then not be issued again.
"""

from dataclasses import asdict, dataclass

import msgspec

from restante.core.errors import BadInput, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity.people.users import checked_email
from restante.updates.devices.ownership import check_user
from restante.updates.pki.crypto.key_options import KeyAlgorithm, checked_curve, checked_rsa_size

SQL = queries_beside(__file__)


class Account(msgspec.Struct):
    id: int
    name: str
    email: str
    provider: str
    ca_id: int | None
    cert_valid_seconds: int | None
    leaf_key_algorithm: str | None
    leaf_ec_curve: str | None
    leaf_rsa_bits: int | None
    created_at: Timestamp


@dataclass(frozen=True, slots=True)
class LeafDefaults:
    """Of the account's certificates, what an issue does not state. None: the server's default."""

    cert_valid_seconds: int | None = None
    leaf_key_algorithm: KeyAlgorithm | None = None
    leaf_ec_curve: str | None = None
    leaf_rsa_bits: int | None = None

    def checked(self) -> "LeafDefaults":
        """The defaults in their stored form; raises BadInput if they contradict each other."""
        if self.leaf_ec_curve is not None and self.leaf_key_algorithm == "RSA":
            raise BadInput("leaf_ec_curve", "none with RSA")
        if self.leaf_rsa_bits is not None and self.leaf_key_algorithm != "RSA":
            raise BadInput("leaf_rsa_bits", "none without leaf_key_algorithm RSA")
        curve = None if self.leaf_ec_curve is None else checked_curve(self.leaf_ec_curve, "leaf_ec_curve")
        bits = None if self.leaf_rsa_bits is None else checked_rsa_size(self.leaf_rsa_bits, "leaf_rsa_bits")
        return LeafDefaults(self.cert_valid_seconds, self.leaf_key_algorithm, curve, bits)


NO_DEFAULTS = LeafDefaults()


def add(
    conn: Connection,
    user_id: int,
    name: str,
    email: str,
    provider: str,
    ca_id: int | None,
    defaults: LeafDefaults = NO_DEFAULTS,
) -> Account:
    check_user(conn, user_id)
    if ca_id is not None and conn.one(SQL.own_active_authority, user_id=user_id, ca_id=ca_id) is None:
        raise BadInput("ca_id", "the id of an active certificate authority of this user")
    row = conn.one(
        SQL.add,
        user_id=user_id,
        name=name,
        email=checked_email(email),
        provider=provider,
        ca_id=ca_id,
        now_ms=conn.now_ms,
        **asdict(defaults.checked()),
    )
    assert row is not None  # noqa: S101 — an INSERT with RETURNING returns its row or raises
    return _account(row)


def get(conn: Connection, user_id: int, acct_id: int) -> Account:
    row = conn.one(SQL.get, user_id=user_id, acct_id=acct_id)
    if row is None:
        raise NotFound("there is no such account")
    return _account(row)


def list_of_user(conn: Connection, user_id: int, window: PageRequest) -> Page[Account]:
    check_user(conn, user_id)
    rows = conn.all(SQL.list_of_user, user_id=user_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", _account)


def delete(conn: Connection, user_id: int, acct_id: int) -> None:
    if not conn.run(SQL.delete, user_id=user_id, acct_id=acct_id):
        raise NotFound("there is no such account")


def _account(row: Row) -> Account:
    same = (column for column in Account.__struct_fields__ if column != "created_at")
    return Account(**{column: row[column] for column in same}, created_at=iso_precise(row["created_at"]))
