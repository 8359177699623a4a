"""API keys: how programs call. A key has a role and is nobody's in particular.

It is shown once, when it is made, and known by its prefix; only its digest is stored. Every use asks the
database, so a revoked key is refused at once, in every process.
"""

from dataclasses import dataclass

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity import secret_tokens
from restante.identity.callers import KeyHolder, Role

SQL = queries_beside(__file__)

PREFIX = "rk_"
NAME_LENGTH_MAX = 100


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What may be told about a key after it was made."""

    id: int
    name: str
    role: Role
    created_at: int
    revoked_at: int | None


def create(conn: Connection, name: str, role: Role) -> tuple[int, str]:
    """Make a key; its id, and the key itself, which is told this once."""
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise BadInput("name", f"1 to {NAME_LENGTH_MAX} printable characters")
    key = secret_tokens.make(PREFIX)
    row = conn.one(SQL.insert_key, name=name, key_hash=secret_tokens.digest(key), role=role.name, now_ms=conn.now_ms)
    assert row is not None  # noqa: S101 — an INSERT that answers with its row, or raises
    return row["id"], key


def find(conn: Connection, key: str) -> KeyHolder | None:
    if not key.startswith(PREFIX):
        return None
    row = conn.one(SQL.find_key, key_hash=secret_tokens.digest(key))
    return KeyHolder(row["id"], row["name"], Role[row["role"]]) if row else None


def revoke(conn: Connection, key_id: int) -> None:
    """End the key. Revoking it again changes nothing."""
    if not conn.run(SQL.revoke_key, key_id=key_id, now_ms=conn.now_ms) and not conn.one(SQL.key_exists, key_id=key_id):
        raise NotFound("there is no such API key")


def list_all(conn: Connection) -> list[ApiKey]:
    return [
        ApiKey(row["id"], row["name"], Role[row["role"]], row["created_at"], row["revoked_at"])
        for row in conn.all(SQL.all_keys)
    ]
