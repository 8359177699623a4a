"""The keys event tokens are signed with: one line of keys for each algorithm, the private parts sealed at rest.

    rotate:    k1 signs ───────────────────┬── k1 published: until the overlap is over and none of its tokens waits ──┤
               k2 published, not signing ──┴── k2 signs ──────────────────────────────────────────────────────────────▶
               └──── the lead ────┘
    withdraw:  k1 signs ──┤ published no more, from this moment; k2 signs at once, without a lead

Who verifies fetches the keys now and then: with the lead everybody has seen a key before the first token that it
signed. The very first key of an algorithm signs at once, as nobody has anything to compare it with. Making a key is
work for outside a transaction (`make`), storing it is for inside one.

Must always hold: a withdrawn key is in no answer and signs nothing; a token that was never handed out and was signed
with it is signed again, one that was handed out stays as it is.
"""

from typing import Any, NamedTuple

import msgspec
from joserfc.jwk import ECKey, OKPKey, RSAKey

from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import iso, iso_or_none
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events import event_audit
from restante.events.jws import ALGORITHMS
from restante.events.publishing import EventsToSign
from restante.identity.master_key import MasterKey

SQL = queries_beside(__file__)

RSA_BITS = 2048
SWEEP_KEYS = 10
DAY_SECONDS = 86_400


class NewKey(NamedTuple):
    """A key that was made and is not stored yet."""

    kid: str
    alg: str
    public_jwk: str
    sealed_key: bytes


class SealedEventKey(NamedTuple):
    kid: str
    alg: str
    sealed_key: bytes


class KeyView(msgspec.Struct, frozen=True):
    """What may be told of a key to operators."""

    kid: str
    alg: str
    status: str
    created_at: str
    signs_from: str
    published_until: str | None
    withdrawn_at: str | None


def make(master: MasterKey, alg: str) -> NewKey:
    """A new key, named by its thumbprint. Takes a noticeable fraction of a second for RSA."""
    key = _generated(alg)
    kid = key.thumbprint()
    public = {**key.as_dict(private=False), "kid": kid, "use": "sig", "alg": alg}
    private = key.as_der(private=True)
    return NewKey(kid, alg, msgspec.json.encode(public).decode(), master.seal(private, _purpose(kid)))


def opened(master: MasterKey, key: SealedEventKey) -> bytes:
    """The private key, PKCS #8 in DER."""
    return master.open(key.sealed_key, _purpose(key.kid))


def checked_algorithm(alg: str) -> str:
    if alg not in ALGORITHMS:
        raise BadInput("alg", f"one of {', '.join(ALGORITHMS)}")
    return alg


def signing(conn: Connection, alg: str) -> SealedEventKey | None:
    """The key that signs now."""
    row = conn.one(SQL.signing_key, alg=alg, now_ms=conn.now_ms)
    return None if row is None else SealedEventKey(row["kid"], row["alg"], row["sealed_key"])


def store_first(conn: Connection, key: NewKey) -> SealedEventKey:
    """Store the key, to sign at once, unless there is one that does; the one that signs."""
    _take_turn(conn)
    found = signing(conn, key.alg)
    if found is not None:
        return found
    _insert(conn, key, conn.now_ms)
    return SealedEventKey(key.kid, key.alg, key.sealed_key)


def rotate(conn: Connection, key: NewKey, lead_seconds: int, overlap_seconds: int, actor: str) -> int:
    """Publish the key now, and let it sign after the lead; when that will be. The first one signs at once."""
    _take_turn(conn)
    is_first = signing(conn, key.alg) is None
    signs_from = conn.now_ms + (0 if is_first else lead_seconds * 1000)
    conn.run(SQL.retire, alg=key.alg, published_until=signs_from + overlap_seconds * 1000)
    _insert(conn, key, signs_from)
    event_audit.record(conn, actor, "event_key.rotated", None, {"kid": key.kid, "alg": key.alg})
    return signs_from


def due_algorithms(conn: Connection, rotation_days: int) -> list[str]:
    """Of which algorithms the newest key is older than that."""
    before = conn.now_ms - rotation_days * DAY_SECONDS * 1000
    return [row["alg"] for row in conn.all(SQL.due_algorithms, before=before)]


def rotate_if_due(conn: Connection, key: NewKey, rotation_days: int, lead_seconds: int, overlap_seconds: int) -> bool:
    """As `rotate`, unless another process was faster."""
    _take_turn(conn)
    if key.alg not in due_algorithms(conn, rotation_days):
        return False
    rotate(conn, key, lead_seconds, overlap_seconds, "system")
    return True


def withdraw(conn: Connection, kid: str, successor: NewKey, actor: str) -> int:
    """Publish the key no more, from now on, and sign with the other; how many tokens are signed again.

    The successor is stored only if no other key of the algorithm signs. One that waits for its time waits no longer.
    """
    _take_turn(conn)
    row = conn.one(SQL.key_for_update, kid=kid)
    if row is None:
        raise NotFound(f"there is no event signing key {kid}")
    if row["withdrawn_at"] is not None:
        raise Conflict("the key is withdrawn already")
    if row["alg"] != successor.alg:
        raise ValueError("the successor is of another algorithm")
    conn.run(SQL.withdraw, kid=kid, now_ms=conn.now_ms)
    conn.run(SQL.end_lead, alg=row["alg"], now_ms=conn.now_ms)
    store_first(conn, successor)
    count = conn.run(SQL.sign_again, kid=kid)
    if count:
        conn.announce(EventsToSign(0))
    event_audit.record(conn, actor, "event_key.withdrawn", None, {"kid": kid, "signed_again": count})
    return count


def algorithm_of(conn: Connection, kid: str) -> str:
    row = conn.one(SQL.key, kid=kid)
    if row is None:
        raise NotFound(f"there is no event signing key {kid}")
    return str(row["alg"])


def published(conn: Connection) -> list[dict[str, Any]]:
    """The public keys, newest first: what the JWKS lists."""
    return [msgspec.json.decode(row["public_jwk"]) for row in conn.all(SQL.published_keys)]


def views(conn: Connection) -> list[KeyView]:
    """Every key there is, newest first."""
    return [
        KeyView(
            kid=row["kid"],
            alg=row["alg"],
            status=_status(conn, row["kid"], row["alg"], row["signs_from"], row["withdrawn_at"]),
            created_at=iso(row["created_at"]),
            signs_from=iso(row["signs_from"]),
            published_until=iso_or_none(row["published_until"]),
            withdrawn_at=iso_or_none(row["withdrawn_at"]),
        )
        for row in conn.all(SQL.all_keys)
    ]


def forget_retired(conn: Connection) -> int:
    """Delete keys whose time is over, unless a token that they signed waits to be fetched; how many there were."""
    return sum(
        conn.run(SQL.delete_key, kid=row["kid"])
        for row in conn.all(SQL.retired_keys, now_ms=conn.now_ms, limit=SWEEP_KEYS)
        if conn.one(SQL.open_token_of, kid=row["kid"]) is None
    )


def _status(conn: Connection, kid: str, alg: str, signs_from: int, withdrawn_at: int | None) -> str:
    if withdrawn_at is not None:
        return "withdrawn"
    if signs_from > conn.now_ms:
        return "coming"
    newest = signing(conn, alg)
    return "signing" if newest is not None and newest.kid == kid else "retired"


def _take_turn(conn: Connection) -> None:
    """Whoever decides which key signs does so after the others have: several nodes may find at once that one is due."""
    conn.lock("event keys", 0)


def _insert(conn: Connection, key: NewKey, signs_from: int) -> None:
    conn.run(SQL.insert_key, **key._asdict(), now_ms=conn.now_ms, signs_from=signs_from)


def _generated(alg: str) -> RSAKey | ECKey | OKPKey:
    match alg:
        case "PS256" | "RS256":
            return RSAKey.generate_key(RSA_BITS)
        case "ES256":
            return ECKey.generate_key("P-256")
        case "EdDSA":
            return OKPKey.generate_key("Ed25519")
    raise ValueError(f"{alg} is no algorithm event tokens are signed with")


def _purpose(kid: str) -> str:
    return f"event signing key {kid}"
