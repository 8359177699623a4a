"""Collectors: the devices that are handed a site's commands, each with a token to call with and a secret to sign with.

The token is kept as a digest; the secret is needed again and is sealed under the master key. Both are told once, when
they are made. A secret that was replaced still verifies ACKs until its overlap is over; commands are signed with the
new one at once.

Must always hold: whoever ends a token announces CollectorRevoked and raises the identity revision in the same
transaction; every telling of a secret is a row of the audit trail.
"""

import secrets
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from restante.commands.audit import AuditEntry, AuditTrail
from restante.core.errors import Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity import collector_tokens, revisions, secret_tokens
from restante.identity.callers import CollectorCaller, CollectorRevoked
from restante.identity.master_key import MasterKey

SQL = queries_beside(__file__)

SECRET_PURPOSE = "collector hmac secret"  # noqa: S105 — a purpose, not a secret
SECRET_BYTES = 32
OPENED_MAX = 10_000

_encode = msgspec.json.Encoder().encode


class NewCollector(NamedTuple):
    """All that is told once."""

    id: int
    token: str
    hmac_secret: str


class Collector(NamedTuple):
    """What may be told of a collector at any time."""

    id: int
    site_id: int
    zone_id: int | None
    device_name: str
    created_at: int
    revoked_at: int | None
    last_seen_at: int | None
    old_secret_until: int | None


class SealedSecrets(NamedTuple):
    """A collector's secrets as they are stored; the old one counts until its moment."""

    hmac_secret: bytes
    old_hmac_secret: bytes | None
    old_secret_until: int | None


class Credentials(NamedTuple):
    """What a collector that is not revoked calls with, and what it is handed commands under, sealed."""

    token_hash: bytes
    hmac_secret: bytes

    def holds_for(self, caller: CollectorCaller) -> bool:
        """Whether the caller's token has not been replaced since it was verified."""
        return caller.token_hash in (None, self.token_hash)


class SecretBox:
    """Seals secrets and opens them; what was opened is remembered under what it was sealed as."""

    def __init__(self, master_key: MasterKey) -> None:
        self._master_key = master_key
        self.open = lru_cache(OPENED_MAX)(self._open)

    def seal(self, secret: str) -> bytes:
        return self._master_key.seal(secret.encode(), SECRET_PURPOSE)

    def valid(self, sealed: SealedSecrets, now_ms: int) -> list[str]:
        """The secrets an ACK may be signed with, the present one first."""
        found = [self.open(sealed.hmac_secret)]
        if sealed.old_hmac_secret and sealed.old_secret_until and now_ms < sealed.old_secret_until:
            found.append(self.open(sealed.old_hmac_secret))
        return found

    def _open(self, sealed: bytes) -> str:
        return self._master_key.open(sealed, SECRET_PURPOSE).decode()


def create(
    conn: Connection,
    trail: AuditTrail,
    box: SecretBox,
    site_id: int,
    zone_id: int | None,
    device_name: str,
    actor: str,
) -> NewCollector:
    """A new collector of a site that exists, and of a zone of it if one is named."""
    token, secret = collector_tokens.make(), secrets.token_hex(SECRET_BYTES)
    row = conn.one(
        SQL.insert_collector,
        site_id=site_id,
        zone_id=zone_id,
        device_name=device_name,
        token_hash=secret_tokens.digest(token),
        hmac_secret=box.seal(secret),
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict(f"the site has a collector named {device_name}")
    _record(conn, trail, site_id, actor, "collector.created", {"device_id": row["id"], "device_name": device_name})
    return NewCollector(row["id"], token, secret)


def find(conn: Connection, device_id: int) -> Collector:
    row = conn.one(SQL.collector, device_id=device_id)
    if row is None:
        raise NotFound("there is no such collector")
    return _collector(row)


def list_some(conn: Connection, site_id: int | None, after: int, limit: int) -> list[Collector]:
    """The collectors of a site, or of all, in the order of their ids."""
    return [_collector(row) for row in conn.all(SQL.collectors, site_id=site_id, after=after, limit=limit)]


def rotate_token(conn: Connection, trail: AuditTrail, device_id: int, actor: str) -> str:
    """A new token; the one before it ends with this transaction."""
    collector = _unrevoked(conn, device_id)
    token = collector_tokens.make()
    conn.run(SQL.put_token, device_id=device_id, token_hash=secret_tokens.digest(token))
    _end_token(conn, device_id)
    _record(conn, trail, collector.site_id, actor, "collector.token_rotated", {"device_id": device_id})
    return token


def rotate_secret(
    conn: Connection, trail: AuditTrail, box: SecretBox, device_id: int, overlap_seconds: int, actor: str
) -> str:
    """A new secret; the one before it verifies ACKs for the overlap."""
    collector = _unrevoked(conn, device_id)
    secret = secrets.token_hex(SECRET_BYTES)
    until = conn.now_ms + overlap_seconds * 1000
    conn.run(SQL.put_secret, device_id=device_id, hmac_secret=box.seal(secret), old_secret_until=until)
    detail = {"device_id": device_id, "old_secret_until": until}
    _record(conn, trail, collector.site_id, actor, "collector.secret_rotated", detail)
    return secret


def revoke(conn: Connection, trail: AuditTrail, device_id: int, actor: str) -> None:
    """End the collector; what it holds is offered to others when its leases run out. A second time changes nothing."""
    collector = find(conn, device_id)
    if collector.revoked_at is not None:
        return
    conn.run(SQL.revoke, device_id=device_id, now_ms=conn.now_ms)
    _end_token(conn, device_id)
    _record(conn, trail, collector.site_id, actor, "collector.revoked", {"device_id": device_id})


def sealed_secrets(conn: Connection, device_id: int) -> SealedSecrets:
    row = conn.one(SQL.secrets_of, device_id=device_id)
    if row is None:
        raise NotFound("there is no such collector")
    return SealedSecrets(row["hmac_secret"], row["old_hmac_secret"], row["old_secret_until"])


def credentials_of(conn: Connection, device_ids: Iterable[int]) -> Callable[[], dict[int, Credentials]]:
    """Those of the collectors that are not revoked; read now, told when called for."""
    found = conn.values_later(SQL.credentials, device_ids=_encode(list(device_ids)).decode())
    return lambda: {device_id: Credentials(token_hash, secret) for device_id, token_hash, secret in found()}


def write_last_seen(conn: Connection, seen: list[tuple[int, float]]) -> None:
    conn.run_many(SQL.last_seen, [{"device_id": device_id, "seen_ms": int(at * 1000)} for device_id, at in seen])


def _unrevoked(conn: Connection, device_id: int) -> Collector:
    collector = find(conn, device_id)
    if collector.revoked_at is not None:
        raise Conflict("the collector is revoked")
    return collector


def _end_token(conn: Connection, device_id: int) -> None:
    revisions.raise_revision(conn)
    conn.announce(CollectorRevoked(device_id))


def _collector(row: Row) -> Collector:
    return Collector(*(row[column] for column in Collector._fields))


def _record(conn: Connection, trail: AuditTrail, site_id: int, actor: str, event: str, detail: dict[str, Any]) -> None:
    trail.record(conn, AuditEntry(site_id, actor, event, None, None, None, detail))
