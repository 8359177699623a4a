"""Registration codes: a device without a token presents one, once, as proof that a person approved it."""

from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity import secret_tokens

SQL = queries_beside(__file__)

CODE_SECONDS = 900


def create(conn: Connection, user_id: int) -> str:
    code = secret_tokens.make()
    conn.run(
        SQL.insert_code,
        code_hash=secret_tokens.digest(code),
        user_id=user_id,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + CODE_SECONDS * 1000,
    )
    return code


def redeem(conn: Connection, code: str) -> int:
    """The user who approved the device. The code is used up if the transaction commits."""
    row = conn.one(SQL.redeem, code_hash=secret_tokens.digest(code), now_ms=conn.now_ms)
    if row is None:
        raise NotAuthenticated("the registration code is not known, was used or has expired")
    return int(row["user_id"])


def delete_expired(conn: Connection) -> int:
    """Delete expired codes; returns how many there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)
