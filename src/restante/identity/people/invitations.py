"""Invitations: an administrator gives a person a code, and the person sets their own password with it, once.

    administrator ─▶ create ─▶ code (shown once) ─▶ person ─▶ accept(code, new password) ─▶ sign in

A person has at most one invitation. Until it is accepted, nothing else about the person changes: a former password
still works. Only the digest of the code is stored. A new password, suspension and removal make the code useless.
"""

from dataclasses import dataclass, field

from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity import access_audit, secret_tokens
from restante.identity.people import users
from restante.identity.people.users import User

SQL = queries_beside(__file__)

LIFETIME_SECONDS = 3 * 86_400
USELESS = "the invitation is not known, was used or has expired: an administrator can make another one"


@dataclass(frozen=True, slots=True)
class Invitation:
    expires_at: int
    code: str = field(repr=False)


def create(conn: Connection, user_id: int, actor: str) -> Invitation:
    """A new invitation, in place of the one before. Its code is shown this once."""
    invitation = Invitation(conn.now_ms + LIFETIME_SECONDS * 1000, secret_tokens.make())
    digest = secret_tokens.digest(invitation.code)
    conn.run(SQL.put, user_id=user_id, code_hash=digest, now_ms=conn.now_ms, expires_at=invitation.expires_at)
    access_audit.record_person(conn, actor, "person.invited", user_id, {})
    return invitation


def expires_at(conn: Connection, user_id: int) -> int | None:
    """Until when the person can accept an invitation; None if there is none."""
    row = conn.one(SQL.of_person, user_id=user_id, now_ms=conn.now_ms)
    return None if row is None else int(row["expires_at"])


def check(conn: Connection, code: str) -> None:
    """NotAuthenticated if the code cannot be used. Hashing a password for it would be in vain."""
    if conn.one(SQL.find, code_hash=secret_tokens.digest(code), now_ms=conn.now_ms) is None:
        raise NotAuthenticated(USELESS)


def accept(conn: Connection, code: str, password_hash: str) -> User:
    """Set the password of the invited person, and use the invitation up."""
    row = conn.one(SQL.use_up, code_hash=secret_tokens.digest(code), now_ms=conn.now_ms)
    if row is None:
        raise NotAuthenticated(USELESS)
    user = users.get(conn, row["user_id"])
    users.set_password(conn, user.id, password_hash, user.email)
    return user


def delete_expired(conn: Connection) -> int:
    """Delete expired invitations; returns how many there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)
