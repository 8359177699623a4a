"""The keys our access tokens are signed with: Ed25519, the private part stored sealed under the master key.

    rotate:   k1 signs ──┬── k1 verifies until its last token has expired ──┤ forgotten
                         └── k2 signs ────────────────────────────────────────▶

The newest key signs; the others verify. Making a key is work for outside a transaction (`make`), storing it
is for inside one (`store_first`, `rotate`). `SigningKeys` holds the opened keys in memory.
"""

from dataclasses import dataclass
from typing import NamedTuple

from joserfc.jwk import OKPKey

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import revisions
from restante.identity.master_key import MasterKey

SQL = queries_beside(__file__)

# Another process may sign with the old key until it has noticed the new one.
NOTICE_SECONDS = 60


class SealedKey(NamedTuple):
    kid: str
    sealed_key: bytes


@dataclass(frozen=True, slots=True)
class StoredKey:
    kid: str
    sealed_key: bytes
    verifies_until: int | None


class _OpenKey(NamedTuple):
    key: OKPKey
    verifies_until: float  # seconds since the epoch


def make(master: MasterKey) -> SealedKey:
    """A new key, not yet stored. Its name is its thumbprint."""
    key = OKPKey.generate_key("Ed25519")
    kid = key.thumbprint()
    return SealedKey(kid, master.seal(key.as_pem(private=True), _purpose(kid)))


def store_first(conn: Connection, key: SealedKey) -> None:
    """Store the key if there is none that signs."""
    conn.run(SQL.insert_first_key, kid=key.kid, sealed_key=key.sealed_key, now_ms=conn.now_ms)


def rotate(conn: Connection, key: SealedKey, old_verify_seconds: int) -> None:
    """Let this key sign from now on. With 0 the old ones end now, and every access token with them."""
    grace_ms = (old_verify_seconds + NOTICE_SECONDS) * 1000 if old_verify_seconds else 0
    conn.run(SQL.retire_keys, verifies_until=conn.now_ms + grace_ms)
    conn.run(SQL.insert_key, kid=key.kid, sealed_key=key.sealed_key, now_ms=conn.now_ms)
    revisions.raise_revision(conn)


def verifying(conn: Connection) -> list[StoredKey]:
    """The keys whose tokens are accepted, the one that signs first."""
    return [
        StoredKey(row["kid"], row["sealed_key"], row["verifies_until"])
        for row in conn.all(SQL.verifying_keys, now_ms=conn.now_ms)
    ]


def forget_expired(conn: Connection) -> int:
    """Delete keys that verify nothing any more; how many there were."""
    return conn.run(SQL.delete_retired, now_ms=conn.now_ms)


class SigningKeys:
    """The keys, opened. `load` before the first use, and again when another process may have rotated them."""

    def __init__(self, database: Database, master: MasterKey) -> None:
        self._database = database
        self._master = master
        self._keys: dict[str, _OpenKey] = {}
        self._signing_kid = ""

    async def load(self) -> None:
        stored = await self._database.read(verifying)
        if not stored or stored[0].verifies_until is not None:
            await self._database.write(store_first, make(self._master))
            stored = await self._database.read(verifying)
        self._keys = {key.kid: self._opened(key) for key in stored}
        self._signing_kid = stored[0].kid

    @property
    def signing(self) -> tuple[str, OKPKey]:
        return self._signing_kid, self._keys[self._signing_kid].key

    def find(self, kid: str, now: float) -> OKPKey | None:
        """The key of that name, if it still verifies."""
        found = self._keys.get(kid)
        return found.key if found and found.verifies_until > now else None

    def _opened(self, stored: StoredKey) -> _OpenKey:
        key = OKPKey.import_key(self._master.open(stored.sealed_key, _purpose(stored.kid)))
        until = float("inf") if stored.verifies_until is None else stored.verifies_until / 1000
        return _OpenKey(key, until)


def _purpose(kid: str) -> str:
    return f"signing key {kid}"
