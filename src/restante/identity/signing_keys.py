"""The keys that sign our access tokens: Ed25519, the private part stored sealed under the master key.

    rotate:   k1 signs ──┬── k1 verifies until its last token has expired ──┤ deleted
                         └── k2 signs ────────────────────────────────────────▶

The newest key signs; the others only verify. `make` creates a key outside a transaction; `store_first` and `rotate`
store it inside one. `SigningKeys` holds the opened keys in memory.

Every database in use has a signing key. The newest one therefore shows whether a master key belongs to this database:
see `matching_master_key`.
"""

from dataclasses import dataclass
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import OKPKey

from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import revocation_counter
from restante.identity.master_key import NEXT_VARIABLE, VARIABLE, MasterKey, MasterKeyError, MasterKeySource
from restante.identity.reseal.key_change import KeyChange, stored_derived_keys, unfinished

SQL = queries_beside(__file__)

# Another process may sign with the old key until it has read the new one.
NOTICE_SECONDS = 60


_LOST = "if it is lost for good, see `restante keys rotate --master-key-lost`"


@dataclass(frozen=True, slots=True)
class SealedKey:
    kid: str
    sealed_key: bytes


class KeysRotated(ClusterMessage, frozen=True, tag="keys"):
    """Another key signs device tokens from now on."""

    needs_catch_up: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class StoredKey:
    kid: str
    sealed_key: bytes
    verifies_until: int | None


@dataclass(frozen=True, slots=True)
class _OpenKey:
    key: OKPKey
    private: Ed25519PrivateKey
    verifies_until: float  # seconds since the epoch


def matching_master_key(conn: Connection, source: MasterKeySource) -> MasterKey | None:
    """The master key that seals this database. None if there is none and a new one may be made: nothing is sealed.

    Raises MasterKeyError for the key of another database and for a lost key. A new key in place of a lost one could
    not open the existing secrets, and secrets sealed with it would be lost when the old key returns.
    """
    # Read the database before the file: the file is made before the first secret is sealed, so it must exist by then.
    is_sealed, newest, change = conn.one(SQL.any_sealed) is not None, conn.one(SQL.newest_key), unfinished(conn)
    found = source.find_all()
    if not found and is_sealed:
        raise MasterKeyError(
            f"{source} is missing, but the database is sealed with its key",
            f"put it back from its backup, or give the key by {VARIABLE}; {_LOST}",
        )
    if not found:
        return None
    master = _of_change(found, change, source) if change is not None else _of_newest(found, newest, source)
    return master.with_derived(stored_derived_keys(conn, master))


def _of_change(found: list[MasterKey], change: KeyChange, source: MasterKeySource) -> MasterKey:
    """The keys of a change that is not finished. Nothing is sealed with the new one before the servers seal with it."""
    known = {key.key_id for key in found}
    for key_id, which in ((change.old_key_id, "old"), (change.new_key_id, "new")):
        if key_id not in known and (change.is_sealing or which == "old"):
            raise MasterKeyError(
                f"the change of the master key is not finished, and its {which} key {key_id} is missing",
                f"put it into {source.path} or {source.next_path}, or give it by {VARIABLE} or {NEXT_VARIABLE}; "
                "then finish the change with `restante keys reseal`",
            )
    return found[0].sealing_with(change.sealing_id, found)


def _of_newest(found: list[MasterKey], newest: Row | None, source: MasterKeySource) -> MasterKey:
    """The key that opens the newest signing key; the others only open."""
    sealing = next((key for key in found if newest is None or _is_opened_by(key, newest)), None)
    if sealing is None:
        raise MasterKeyError(
            f"{source} does not fit: this database is sealed with another master key",
            f"put the right one in its place; {_LOST}",
        )
    return sealing.sealing_with(sealing.key_id, found)


def unlock(database: Database, source: MasterKeySource) -> MasterKey:
    """The master key of the database, made if nothing is sealed yet; raises as `matching_master_key` does."""
    return database.read_now(matching_master_key, source) or source.make()


def make(master: MasterKey) -> SealedKey:
    """A new key, not yet stored. Its `kid` is its thumbprint."""
    key = OKPKey.generate_key("Ed25519")
    kid = key.thumbprint()
    return SealedKey(kid, master.seal(key.as_pem(private=True), _purpose(kid)))


def store_first(conn: Connection, key: SealedKey) -> None:
    """Store the key if no key signs yet."""
    conn.lock("signing keys", 0)
    conn.run(SQL.insert_first_key, kid=key.kid, sealed_key=key.sealed_key, now_ms=conn.now_ms)


def rotate(conn: Connection, key: SealedKey, old_verify_seconds: int) -> None:
    """Let this key sign from now on. With 0 seconds the old keys end now, and every access token with them."""
    conn.lock("signing keys", 0)
    grace_ms = (old_verify_seconds + NOTICE_SECONDS) * 1000 if old_verify_seconds else 0
    conn.run(SQL.retire_keys, verifies_until=conn.now_ms + grace_ms)
    conn.run(SQL.insert_key, kid=key.kid, sealed_key=key.sealed_key, now_ms=conn.now_ms)
    revocation_counter.increment(conn)
    conn.add_commit_event(KeysRotated())


def list_verifying(conn: Connection) -> list[StoredKey]:
    """The keys whose tokens are accepted; the signing key comes first."""
    return [
        StoredKey(row["kid"], row["sealed_key"], row["verifies_until"])
        for row in conn.all(SQL.verifying_keys, now_ms=conn.now_ms)
    ]


def delete_expired(conn: Connection) -> int:
    """Delete keys that no longer verify; returns how many there were."""
    return conn.run(SQL.delete_retired, now_ms=conn.now_ms)


class SigningKeys:
    """The opened keys. Call `load` before the first use, and again when another process may have rotated them."""

    def __init__(self, database: Database, master: MasterKey) -> None:
        self._database = database
        self._master = master
        self._keys: dict[str, _OpenKey] = {}
        self._signing_kid = ""

    async def load(self) -> None:
        stored = await self._database.read(list_verifying)
        if not stored or stored[0].verifies_until is not None:
            await self._database.write(store_first, make(self._master))
            stored = await self._database.read(list_verifying)
        self._keys = {key.kid: self._opened(key) for key in stored}
        self._signing_kid = stored[0].kid

    @property
    def signing(self) -> tuple[str, OKPKey]:
        return self._signing_kid, self._keys[self._signing_kid].key

    @property
    def all_keys(self) -> dict[str, OKPKey]:
        """Every key that was loaded, by its `kid`."""
        return {kid: opened.key for kid, opened in self._keys.items()}

    def find(self, kid: str, now: float) -> OKPKey | None:
        """The key with that `kid`, if it still verifies."""
        found = self._keys.get(kid)
        return found.key if found and found.verifies_until > now else None

    def signature(self, kid: str, message: bytes, now: float) -> bytes | None:
        """The signature of a message by the key with that `kid`, if it still verifies. Always the same (RFC 8032)."""
        found = self._keys.get(kid)
        return found.private.sign(message) if found and found.verifies_until > now else None

    def _opened(self, stored: StoredKey) -> _OpenKey:
        key = OKPKey.import_key(self._master.open(stored.sealed_key, _purpose(stored.kid)))
        until = float("inf") if stored.verifies_until is None else stored.verifies_until / 1000
        private = key.private_key
        if not isinstance(private, Ed25519PrivateKey):
            raise TypeError(f"the signing key {stored.kid} is not of Ed25519")
        return _OpenKey(key, private, until)


def _is_opened_by(master: MasterKey, row: Row) -> bool:
    try:
        master.open(row["sealed_key"], _purpose(row["kid"]))
    except MasterKeyError:
        return False
    return True


def _purpose(kid: str) -> str:
    return f"signing key {kid}"
