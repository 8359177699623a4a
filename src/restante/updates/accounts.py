"""Accounts that certificates are issued through. One bound to an authority of the user's own issues from it.

One without cannot issue: public providers want to reach the domain, and this server does not stand there.
Deleting an account keeps the certificates made through it; they can then not be issued again.
"""

import msgspec

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.users import checked_email
from restante.updates.ownership import require_user
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)


class Account(msgspec.Struct):
    id: int
    name: str
    email: str
    provider: str
    ca_id: int | None
    created_at: int


def add(conn: Connection, user_id: int, name: str, email: str, provider: str, ca_id: int | None) -> Account:
    require_user(conn, user_id)
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
    )
    assert row is not None  # noqa: S101 — an INSERT with RETURNING answers its row, or raises
    return _account(row)


def get(conn: Connection, user_id: int, acct_id: int) -> Account:
    row = conn.one(SQL.get, user_id=user_id, acct_id=acct_id)
    if row is None:
        raise NotFound("there is no such account")
    return _account(row)


def list_of_user(conn: Connection, user_id: int, window: Window) -> Page[Account]:
    require_user(conn, user_id)
    rows = conn.all(SQL.list_of_user, user_id=user_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", _account)


def delete(conn: Connection, user_id: int, acct_id: int) -> None:
    if not conn.run(SQL.delete, user_id=user_id, acct_id=acct_id):
        raise NotFound("there is no such account")


def _account(row: Row) -> Account:
    return Account(row["id"], row["name"], row["email"], row["provider"], row["ca_id"], row["created_at"] // 1000)
