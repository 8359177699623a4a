"""API keys: the credentials of programs. A key has grants, and may belong to a user.

    a key without a user    acts for every user, within its grants; created by an administrator
    a key of a user         acts for that user only, within its grants and the grants that the user has now

A key is shown once, when it is created, and recognised by its prefix; only its digest is stored. Every use reads the
database, so every process refuses a revoked or suspended key at once. Each change of a key is recorded
(access_audit.py).
"""

from dataclasses import dataclass

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity import access_audit, secret_tokens
from restante.identity.access_audit import SYSTEM
from restante.identity.callers import ApiKeyCaller
from restante.identity.grants import Grants, Role, stored_grants

SQL = queries_beside(__file__)

PREFIX = "rk_"
NAME_LENGTH_MAX = 100


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The part of a key that may be shown after its creation."""

    id: int
    name: str
    role: Role
    created_at: int
    revoked_at: int | None
    user_id: int | None
    expires_at: int | None
    suspended_at: int | None
    grants: Grants


def create(
    conn: Connection,
    name: str,
    grants: Grants | Role,
    user_id: int | None = None,
    lifetime_seconds: int | None = None,
    actor: str = SYSTEM,
    made_by: int | None = None,
) -> tuple[int, str]:
    """Create a key; returns its id and the key itself, which is shown this once. A role alone counts everywhere."""
    grants = Grants.everywhere(grants) if isinstance(grants, Role) else grants
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise BadInput("name", f"1 to {NAME_LENGTH_MAX} printable characters")
    key = secret_tokens.make(PREFIX)
    row = conn.one(
        SQL.insert_key,
        name=name,
        key_hash=secret_tokens.digest(key),
        role=grants.role.name,
        grants=grants.stored(),
        user_id=user_id,
        made_by=made_by,
        now_ms=conn.now_ms,
        expires_at=None if lifetime_seconds is None else conn.now_ms + lifetime_seconds * 1000,
    )
    assert row is not None  # noqa: S101 — an INSERT returns its row or raises
    detail = {"name": name, "grants": grants.as_texts(), "user_id": user_id}
    access_audit.record_key(conn, actor, "key.created", row["id"], detail)
    return row["id"], key


def find(conn: Connection, key: str) -> ApiKeyCaller | None:
    if not key.startswith(PREFIX):
        return None
    row = conn.one(SQL.find_key, key_hash=secret_tokens.digest(key), now_ms=conn.now_ms)
    if row is None:
        return None
    grants: Grants | None = stored_grants(row["role"], row["grants"])
    if row["user_id"] is not None and grants is not None:
        grants = grants.within(stored_grants(row["user_role"], row["user_grants"]))
    if grants is None:
        return None
    return ApiKeyCaller(row["id"], row["name"], grants, row["user_id"], row["made_by"])


def get_any(conn: Connection, key_id: int) -> ApiKey:
    """The key of any owner; raises NotFound if it is missing."""
    row = conn.one(SQL.key, key_id=key_id)
    if row is None:
        raise NotFound("there is no such API key")
    return _api_key(row)


def get(conn: Connection, key_id: int, user_id: int) -> ApiKey:
    """The user's key; raises NotFound if it is missing or does not belong to the user."""
    row = conn.one(SQL.key_of_user, key_id=key_id, user_id=user_id)
    if row is None:
        raise NotFound("there is no such API key")
    return _api_key(row)


def revoke(conn: Connection, key_id: int, actor: str = SYSTEM) -> None:
    """Revoke the key. Revoking it again changes nothing."""
    get_any(conn, key_id)
    if conn.run(SQL.revoke_key, key_id=key_id, now_ms=conn.now_ms):
        access_audit.record_key(conn, actor, "key.revoked", key_id, {})


def revoke_of_user(conn: Connection, user_id: int, actor: str) -> None:
    """Revoke every key of the user."""
    for row in conn.all(SQL.unrevoked_of_user, user_id=user_id):
        revoke(conn, row["id"], actor)


def set_grants(conn: Connection, key_id: int, grants: Grants, actor: str) -> None:
    before = get_any(conn, key_id)
    if before.grants != grants:
        conn.run(SQL.set_grants, key_id=key_id, role=grants.role.name, grants=grants.stored())
        detail = {"before": before.grants.as_texts(), "after": grants.as_texts()}
        access_audit.record_key(conn, actor, "key.grants_changed", key_id, detail)


def set_suspended(conn: Connection, key_id: int, actor: str, *, is_suspended: bool) -> None:
    """Suspend the key, or end its suspension. Doing it again changes nothing."""
    if (get_any(conn, key_id).suspended_at is not None) != is_suspended:
        conn.run(SQL.set_suspended_at, key_id=key_id, suspended_at=conn.now_ms if is_suspended else None)
        access_audit.record_key(conn, actor, "key.suspended" if is_suspended else "key.resumed", key_id, {})


def list_all(conn: Connection) -> list[ApiKey]:
    return list_after(conn, 0, INT64_MAX)


def list_after(conn: Connection, after: int, limit: int) -> list[ApiKey]:
    return [_api_key(row) for row in conn.all(SQL.all_keys, after=after, limit=limit)]


def list_of_user(conn: Connection, user_id: int, page: PageRequest) -> Page[ApiKey]:
    rows = conn.all(SQL.keys_of_user, user_id=user_id, after=page.after, limit=page.limit + 1)
    return page_of(rows, page, "id", _api_key)


def _api_key(row: Row) -> ApiKey:
    return ApiKey(
        row["id"],
        row["name"],
        Role[row["role"]],
        row["created_at"],
        row["revoked_at"],
        row["user_id"],
        row["expires_at"],
        row["suspended_at"],
        stored_grants(row["role"], row["grants"]),
    )
