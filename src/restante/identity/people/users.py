"""Users: the people who can sign in, and their grants. Each change is recorded (access_audit.py).

E-mails are compared and stored in lower case. Passwords arrive here already hashed (see passwords.py): hashing does not
belong inside a transaction.

A suspended or removed person has no sessions and cannot sign in, and the API keys of the person are refused. A removed
person stays as the owner of devices, without e-mail and password.

Invariant: there is always a person with the role admin for everything, once there was one (`_keep_an_admin`).
"""

import re
from dataclasses import dataclass, field

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import access_audit, api_keys
from restante.identity.access_audit import SYSTEM
from restante.identity.grants import Grants, Role, stored_grants

SQL = queries_beside(__file__)

EMAIL_LENGTH_MAX = 254
# Verifies no password.
NO_PASSWORD = ""
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class User:
    id: int
    email: str
    role: Role
    created_at: int
    suspended_at: int | None
    is_removed: bool
    grants: Grants
    password_hash: str = field(repr=False)

    @property
    def has_password(self) -> bool:
        """Whether the person can sign in: an invited person has no password yet."""
        return self.password_hash != NO_PASSWORD


def checked_email(email: str) -> str:
    """The e-mail in its stored form; raises BadInput if it is none."""
    email = email.strip().lower()
    if len(email) > EMAIL_LENGTH_MAX or not _EMAIL.fullmatch(email):
        raise BadInput("email", "an e-mail address")
    return email


def add(conn: Connection, email: str, password_hash: str, grants: Grants | Role, actor: str = SYSTEM) -> int:
    """Add a user; returns the id. A role alone counts everywhere."""
    grants = Grants.everywhere(grants) if isinstance(grants, Role) else grants
    row = conn.one(
        SQL.insert_user,
        email=checked_email(email),
        password_hash=password_hash,
        role=grants.role.name,
        grants=grants.stored(),
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict("there is already a user with this e-mail")
    detail = {"email": checked_email(email), "grants": grants.as_texts()}
    access_audit.record_person(conn, actor, "person.added", row["id"], detail)
    return int(row["id"])


def find_by_email(conn: Connection, email: str) -> User | None:
    email = email.strip().lower()
    return _user(conn.one(SQL.user_by_email, email=email)) if _EMAIL.fullmatch(email) else None


def find_by_id(conn: Connection, user_id: int) -> User | None:
    return _user(conn.one(SQL.user_by_id, user_id=user_id))


def get(conn: Connection, user_id: int) -> User:
    """The user; raises NotFound if there is none."""
    user = find_by_id(conn, user_id)
    if user is None:
        raise NotFound("there is no such user")
    return user


def check_exists(conn: Connection, user_id: int) -> None:
    """Raises NotFound if there is no such user."""
    get(conn, user_id)


def list_all(conn: Connection) -> list[User]:
    return list_after(conn, 0, INT64_MAX)


def list_after(conn: Connection, after: int, limit: int) -> list[User]:
    """Users who were not removed, ordered by id."""
    return [user for row in conn.all(SQL.users_after, after=after, limit=limit) if (user := _user(row))]


def set_password(conn: Connection, user_id: int, password_hash: str, actor: str = SYSTEM) -> None:
    """Set a new password; sessions that were started with the old one end, and no address is known any more."""
    if not conn.run(SQL.set_password, user_id=user_id, password_hash=password_hash):
        raise NotFound("there is no such user")
    conn.run(SQL.end_sessions, user_id=user_id)
    conn.run(SQL.forget_known_addresses, user_id=user_id)
    conn.run(SQL.end_invitation, user_id=user_id)
    access_audit.record_person(conn, actor, "person.password_changed", user_id, {})


def set_grants(conn: Connection, user_id: int, grants: Grants, actor: str) -> None:
    """Replace the user's grants; sessions go on with the new ones."""
    before = _get_for_change(conn, user_id)
    if before.grants == grants:
        return
    if not grants.has_all:
        _keep_an_admin(conn, before)
    conn.run(SQL.set_grants, user_id=user_id, role=grants.role.name, grants=grants.stored())
    detail = {"before": before.grants.as_texts(), "after": grants.as_texts()}
    access_audit.record_person(conn, actor, "person.grants_changed", user_id, detail)


def suspend(conn: Connection, user_id: int, actor: str) -> None:
    """End the user's sessions and refuse new ones. Suspending again changes nothing."""
    user = _get_for_change(conn, user_id)
    if user.suspended_at is None:
        _keep_an_admin(conn, user)
        conn.run(SQL.set_suspended_at, user_id=user_id, suspended_at=conn.now_ms)
        _end_access(conn, user_id)
        access_audit.record_person(conn, actor, "person.suspended", user_id, {})


def resume(conn: Connection, user_id: int, actor: str) -> None:
    """End the suspension; the user signs in again."""
    if _get_for_change(conn, user_id).suspended_at is not None:
        conn.run(SQL.set_suspended_at, user_id=user_id, suspended_at=None)
        access_audit.record_person(conn, actor, "person.resumed", user_id, {})


def remove(conn: Connection, user_id: int, actor: str) -> None:
    """Remove the user for good. API keys of the user are revoked; devices and certificates stay."""
    user = _get_for_change(conn, user_id)
    _keep_an_admin(conn, user)
    api_keys.revoke_of_user(conn, user_id, actor)
    conn.run(SQL.remove_user, user_id=user_id, email=f"removed-{user_id}", now_ms=conn.now_ms)
    conn.run(SQL.forget_saved_filters, user_id=user_id)
    _end_access(conn, user_id)
    access_audit.record_person(conn, actor, "person.removed", user_id, {"email": user.email})


def _get_for_change(conn: Connection, user_id: int) -> User:
    # One change at a time: of two administrators who suspend each other, one is refused.
    conn.lock("people", 0)
    user = find_by_id(conn, user_id)
    if user is None or user.is_removed:
        raise NotFound("there is no such user")
    return user


def _keep_an_admin(conn: Connection, user: User) -> None:
    """Refuse to end the access of the last person who is an administrator of everything."""
    is_admin = user.grants.has_all and user.suspended_at is None
    if is_admin and not any(
        stored_grants(row["role"], row["grants"]).has_all for row in conn.all(SQL.other_admins, user_id=user.id)
    ):
        raise Conflict("this is the last person with the role admin for everything: give it to another person first")


def _end_access(conn: Connection, user_id: int) -> None:
    conn.run(SQL.end_sessions, user_id=user_id)
    conn.run(SQL.end_registration_codes, user_id=user_id)
    conn.run(SQL.end_device_codes, user_id=user_id)
    conn.run(SQL.end_invitation, user_id=user_id)


def _user(row: Row | None) -> User | None:
    if row is None:
        return None
    grants = stored_grants(row["role"], row["grants"])
    return User(
        row["id"],
        row["email"],
        grants.role,
        row["created_at"],
        row["suspended_at"],
        row["removed_at"] is not None,
        grants,
        row["password_hash"],
    )
