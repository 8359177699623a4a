"""The keys that sign event tokens: one sequence of keys for each algorithm, private keys sealed at rest.

    rotate:    k1 signs ───────────────────┬── k1 published until the overlap ends and none of its tokens waits ──────┤
               k2 published, not signing ──┴── k2 signs ──────────────────────────────────────────────────────────────▶
               └──── the lead ────┘
    withdraw:  k1 signs ──┤ k1 no longer published; k2 signs at once, without a lead

Clients fetch the keys from time to time; the lead gives them time to fetch a key before its first token. The first key
of an algorithm has no lead: it is made before any token needs it, at the start of a node (`needed_algorithms`) or when
the first client with that algorithm is registered. `generate` makes a key outside of a transaction, since that is slow;
other functions store it inside one.

Invariants:
- A withdrawn key is not published and signs nothing.
- A token of a withdrawn key is signed again if no client received it; otherwise its bytes stay as they are.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from joserfc.jwk import ECKey, OKPKey, RSAKey

from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.publishing import event_audit
from restante.events.publishing.publishing import EventsToSign
from restante.events.signing.jws import ALGORITHMS, SHARED_SIGNALS_ALGORITHM
from restante.identity.master_key import MasterKey

SQL = queries_beside(__file__)

RSA_BITS = 2048
SWEEP_KEYS = 10
DAY_SECONDS = 86_400
# Some JOSE libraries refuse a whole JWKS for one key of an unknown type; the types that all of them know come first.
KEY_TYPES = ("RSA", "EC", "OKP")


@dataclass(frozen=True, slots=True)
class NewEventKey:
    """A generated key that is not stored yet."""

    kid: str
    alg: str
    public_jwk: str
    sealed_key: bytes


@dataclass(frozen=True, slots=True)
class SealedEventKey:
    kid: str
    alg: str
    sealed_key: bytes


class EventKeyView(msgspec.Struct, frozen=True):
    """A key as operators see it."""

    kid: str
    alg: str
    status: str
    created_at: Timestamp
    signs_from: Timestamp
    published_until: Timestamp | None
    withdrawn_at: Timestamp | None


def generate(master: MasterKey, alg: str) -> NewEventKey:
    """Generate a key whose kid is its thumbprint. RSA takes a noticeable fraction of a second."""
    key = _generate(alg)
    kid = key.thumbprint()
    public = {**key.as_dict(private=False), "kid": kid, "use": "sig", "alg": alg}
    private = key.as_der(private=True)
    return NewEventKey(kid, alg, msgspec.json.encode(public).decode(), master.seal(private, _purpose(kid)))


def open_private_key(master: MasterKey, key: SealedEventKey) -> bytes:
    """Return the private key, PKCS #8 in DER."""
    return master.open(key.sealed_key, _purpose(key.kid))


def check_algorithm(alg: str) -> str:
    if alg not in ALGORITHMS:
        raise BadInput("alg", f"one of {', '.join(ALGORITHMS)}")
    return alg


def current_key(conn: Connection, alg: str) -> SealedEventKey | None:
    """Return the key that signs now, if the algorithm has one."""
    row = conn.one(SQL.signing_key, alg=alg, now_ms=conn.now_ms)
    return None if row is None else SealedEventKey(row["kid"], row["alg"], row["sealed_key"])


def needed_algorithms(conn: Connection, default_alg: str) -> list[str]:
    """Return the algorithms that sign events: of Shared Signals, of the registered clients, and the default."""
    of_clients = [row["alg"] for row in conn.all(SQL.algorithms_of_clients)]
    return list(dict.fromkeys([SHARED_SIGNALS_ALGORITHM, *of_clients, default_alg]))


def missing_algorithms(conn: Connection, algorithms: Iterable[str]) -> list[str]:
    """Return those of the algorithms that no key signs with."""
    return [alg for alg in algorithms if current_key(conn, alg) is None]


def store_first(conn: Connection, key: NewEventKey) -> SealedEventKey:
    """Store the key to sign at once, unless another key signs already; return the key that signs."""
    _lock_keys(conn)
    current = current_key(conn, key.alg)
    if current is not None:
        return current
    _insert(conn, key, conn.now_ms)
    return SealedEventKey(key.kid, key.alg, key.sealed_key)


def rotate(conn: Connection, key: NewEventKey, lead_seconds: int, overlap_seconds: int, actor: str) -> int:
    """Publish the key now, to sign after the lead; return the time it starts. A first key signs at once."""
    _lock_keys(conn)
    is_first = current_key(conn, key.alg) is None
    signs_from = conn.now_ms + (0 if is_first else lead_seconds * 1000)
    conn.run(SQL.retire, alg=key.alg, published_until=signs_from + overlap_seconds * 1000)
    _insert(conn, key, signs_from)
    event_audit.record(conn, actor, "event_key.rotated", None, {"kid": key.kid, "alg": key.alg})
    return signs_from


def due_algorithms(conn: Connection, rotation_days: int) -> list[str]:
    """Return the algorithms whose newest key is older than `rotation_days`."""
    before = conn.now_ms - rotation_days * DAY_SECONDS * 1000
    return [row["alg"] for row in conn.all(SQL.due_algorithms, before=before)]


def rotate_if_due(
    conn: Connection, key: NewEventKey, rotation_days: int, lead_seconds: int, overlap_seconds: int
) -> bool:
    """`rotate`, unless another process already did; return whether it rotated."""
    _lock_keys(conn)
    if key.alg not in due_algorithms(conn, rotation_days):
        return False
    rotate(conn, key, lead_seconds, overlap_seconds, "system")
    return True


def withdraw(conn: Connection, kid: str, successor: NewEventKey, actor: str) -> int:
    """Stop publishing the key and sign with another one; return the number of tokens that are signed again.

    Another key of the algorithm that is in its lead signs at once. The successor is stored only if there is none.
    """
    _lock_keys(conn)
    row = conn.one(SQL.key_for_update, kid=kid)
    if row is None:
        raise NotFound(f"there is no event signing key {kid}")
    if row["withdrawn_at"] is not None:
        raise Conflict("the key is already withdrawn")
    if row["alg"] != successor.alg:
        raise ValueError("the successor has another algorithm")
    conn.run(SQL.withdraw, kid=kid, now_ms=conn.now_ms)
    conn.run(SQL.end_lead, alg=row["alg"], now_ms=conn.now_ms)
    store_first(conn, successor)
    count = conn.run(SQL.sign_again, kid=kid)
    if count:
        conn.add_commit_event(EventsToSign(0))
    event_audit.record(conn, actor, "event_key.withdrawn", None, {"kid": kid, "signed_again": count})
    return count


def algorithm_of(conn: Connection, kid: str) -> str:
    row = conn.one(SQL.key, kid=kid)
    if row is None:
        raise NotFound(f"there is no event signing key {kid}")
    return str(row["alg"])


def published_jwks(conn: Connection, algorithms: Collection[str] = ALGORITHMS) -> list[dict[str, Any]]:
    """Return the public keys of these algorithms for a JWKS: RSA first, then EC, then OKP; of each the newest first."""
    keys = [msgspec.json.decode(row["public_jwk"]) for row in conn.all(SQL.published_keys)]
    return sorted(
        (key for key in keys if key["alg"] in algorithms),
        key=lambda key: KEY_TYPES.index(key["kty"]),
    )


def list_views(conn: Connection) -> list[EventKeyView]:
    """Return all keys, newest first."""
    return [
        EventKeyView(
            kid=row["kid"],
            alg=row["alg"],
            status=_status(conn, row["kid"], row["alg"], row["signs_from"], row["withdrawn_at"]),
            created_at=iso_precise(row["created_at"]),
            signs_from=iso_precise(row["signs_from"]),
            published_until=iso_precise(row["published_until"]),
            withdrawn_at=iso_precise(row["withdrawn_at"]),
        )
        for row in conn.all(SQL.all_keys)
    ]


def forget_retired(conn: Connection) -> int:
    """Delete retired keys, unless one of their tokens waits for delivery; return their number."""
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
    current = current_key(conn, alg)
    return "signing" if current is not None and current.kid == kid else "retired"


def _lock_keys(conn: Connection) -> None:
    """Serialize decisions about the signing key: several nodes may find at once that a rotation is due."""
    conn.lock("event keys", 0)


def _insert(conn: Connection, key: NewEventKey, signs_from: int) -> None:
    conn.run(
        SQL.insert_key,
        kid=key.kid,
        alg=key.alg,
        public_jwk=key.public_jwk,
        sealed_key=key.sealed_key,
        now_ms=conn.now_ms,
        signs_from=signs_from,
    )


def _generate(alg: str) -> RSAKey | ECKey | OKPKey:
    match alg:
        case "PS256" | "RS256":
            return RSAKey.generate_key(RSA_BITS)
        case "ES256":
            return ECKey.generate_key("P-256")
        case "EdDSA":
            return OKPKey.generate_key("Ed25519")
    raise ValueError(f"event tokens cannot be signed with {alg}")


def _purpose(kid: str) -> str:
    return f"event signing key {kid}"
