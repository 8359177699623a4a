"""People: who can sign in, and in which role.

E-mails are compared in lower case and kept so. Passwords come here already hashed (see passwords.py):
hashing does not belong inside a transaction.
"""

import re
from dataclasses import dataclass, field

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.callers import Role

SQL = queries_beside(__file__)

EMAIL_LENGTH_MAX = 254
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class User:
    id: int
    email: str
    role: Role
    created_at: int
    password_hash: str = field(repr=False)


def checked_email(email: str) -> str:
    """The e-mail as it is kept, or BadInput."""
    email = email.strip().lower()
    if len(email) > EMAIL_LENGTH_MAX or not _EMAIL.fullmatch(email):
        raise BadInput("email", "an e-mail address")
    return email


def add(conn: Connection, email: str, password_hash: str, role: Role) -> int:
    row = conn.one(
        SQL.insert_user,
        email=checked_email(email),
        password_hash=password_hash,
        role=role.name,
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict("there is already a user with this e-mail")
    return int(row["id"])


def by_email(conn: Connection, email: str) -> User | None:
    email = email.strip().lower()
    return _user(conn.one(SQL.user_by_email, email=email)) if _EMAIL.fullmatch(email) else None


def by_id(conn: Connection, user_id: int) -> User | None:
    return _user(conn.one(SQL.user_by_id, user_id=user_id))


def require(conn: Connection, user_id: int) -> None:
    """NotFound if there is no such user."""
    if by_id(conn, user_id) is None:
        raise NotFound("there is no such user")


def list_all(conn: Connection) -> list[User]:
    return [user for row in conn.all(SQL.all_users) if (user := _user(row))]


def set_password(conn: Connection, user_id: int, password_hash: str) -> None:
    """Give the person a new password; every session begun with the old one ends."""
    if not conn.run(SQL.set_password, user_id=user_id, password_hash=password_hash):
        raise NotFound("there is no such user")
    conn.run(SQL.end_sessions, user_id=user_id)


def _user(row: Row | None) -> User | None:
    if row is None:
        return None
    return User(row["id"], row["email"], Role[row["role"]], row["created_at"], row["password_hash"])
