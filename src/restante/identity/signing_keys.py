"""The keys our access tokens are signed with: Ed25519, the private part stored sealed under the master key.

    rotate:   k1 signs ──┬── k1 verifies until its last token has expired ──┤ forgotten
                         └── k2 signs ────────────────────────────────────────▶

The newest key signs; the others verify. Making a key is work for outside a transaction (`make`), storing it
is for inside one (`store_first`, `rotate`). `SigningKeys` holds the opened keys in memory.

As every database in use has one, the newest also tells whether a master key is this database's: see `matching_key`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from joserfc.jwk import OKPKey

from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import revisions
from restante.identity.master_key import VARIABLE, MasterKey, MasterKeyError, MasterKeySource

SQL = queries_beside(__file__)

# Another process may sign with the old key until it has noticed the new one.
NOTICE_SECONDS = 60


_LOST = "if it is lost for good, see `restante keys rotate --master-key-lost`"


class SealedKey(NamedTuple):
    kid: str
    sealed_key: bytes


class KeysRotated(NamedTuple):
    """Announced when another key signs from now on."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    kid: str
    sealed_key: bytes
    verifies_until: int | None


class _OpenKey(NamedTuple):
    key: OKPKey
    verifies_until: float  # seconds since the epoch


def matching_key(conn: Connection, source: MasterKeySource) -> MasterKey | None:
    """The master key this database is sealed with. None if it has none and may be given one, as nothing is sealed.

    MasterKeyError for another database's key, and for a lost one: a new key beside it would open nothing of what is
    there, and everything sealed from then on would be lost with the old key's return.
    """
    # The database before the file: whoever seals first has made the file before, so it is there if anything is sealed.
    is_sealed, newest = conn.one(SQL.any_sealed) is not None, conn.one(SQL.newest_key)
    master = source.find()
    if master is None and is_sealed:
        raise MasterKeyError(
            f"{source} is not there, but the database is sealed with its key",
            f"put it back from its backup, or give the key by {VARIABLE}; {_LOST}",
        )
    if master is not None and newest is not None and not _is_opened_by(master, newest):
        raise MasterKeyError(
            f"{source} is not the one this database is sealed with, which is another master key",
            f"put the right one in its place; {_LOST}",
        )
    return master


def unlock(database: Database, source: MasterKeySource) -> MasterKey:
    """The master key of the database, made if it is to have its first one; MasterKeyError as `matching_key` has it."""
    return database.read_now(matching_key, source) or source.make()


def make(master: MasterKey) -> SealedKey:
    """A new key, not yet stored. Its name is its thumbprint."""
    key = OKPKey.generate_key("Ed25519")
    kid = key.thumbprint()
    return SealedKey(kid, master.seal(key.as_pem(private=True), _purpose(kid)))


def store_first(conn: Connection, key: SealedKey) -> None:
    """Store the key if there is none that signs."""
    conn.lock("signing keys", 0)
    conn.run(SQL.insert_first_key, kid=key.kid, sealed_key=key.sealed_key, now_ms=conn.now_ms)


def rotate(conn: Connection, key: SealedKey, old_verify_seconds: int) -> None:
    """Let this key sign from now on. With 0 the old ones end now, and every access token with them."""
    conn.lock("signing keys", 0)
    grace_ms = (old_verify_seconds + NOTICE_SECONDS) * 1000 if old_verify_seconds else 0
    conn.run(SQL.retire_keys, verifies_until=conn.now_ms + grace_ms)
    conn.run(SQL.insert_key, kid=key.kid, sealed_key=key.sealed_key, now_ms=conn.now_ms)
    revisions.raise_revision(conn)
    conn.announce(KeysRotated())


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


def _is_opened_by(master: MasterKey, row: Row) -> bool:
    try:
        master.open(row["sealed_key"], _purpose(row["kid"]))
    except MasterKeyError:
        return False
    return True


def _purpose(kid: str) -> str:
    return f"signing key {kid}"
