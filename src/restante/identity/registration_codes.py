"""Registration codes: what a device without a token shows as proof that a person let it in, once."""

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
    """The user who let the device in. The code is used up, if the transaction is committed."""
    row = conn.one(SQL.redeem, code_hash=secret_tokens.digest(code), now_ms=conn.now_ms)
    if row is None:
        raise NotAuthenticated("the registration code is not known, was used or has expired")
    return int(row["user_id"])


def forget_expired(conn: Connection) -> int:
    """Clear what has expired; how many there were."""
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)
