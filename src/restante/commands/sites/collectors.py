"""Collectors: the devices that fetch a site's commands. Each has a token to authenticate and a secret to sign with.

The database stores the digest of the token. The secret is needed again for signing, so it is stored sealed under the
master key. Both are shown once, when they are created. After a rotation the old secret still verifies ACKs until the
overlap ends; commands are signed with the new secret at once.

Invariants: a transaction that ends a token adds the commit event `CollectorRevoked` and raises the identity revision;
every time a secret is shown, the audit trail gets a row.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.sites.site_scope import site_filter
from restante.core.errors import Conflict, NotFound
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import (
    Condition,
    FilteredList,
    StateCounting,
    among,
    begins,
    between,
    equal,
    is_null,
)
from restante.database.paging import Page, PageRequest
from restante.database.queries import queries_beside
from restante.identity import revocation_counter, secret_tokens
from restante.identity.callers import CollectorCaller, CollectorRevoked
from restante.identity.clients import collector_tokens
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.identity.master_key import MasterKey, MasterKeyError

SQL = queries_beside(__file__)

SECRET_PURPOSE = "collector hmac secret"  # noqa: S105 — a purpose, not a secret
PARAMS_PURPOSE = "secret command parameters"
BODY_PURPOSE = "digest of command requests"
SECRET_BYTES = 32
OPENED_SECRETS_MAX = 10_000
STATUSES = ("active", "revoked")

_encode = msgspec.json.Encoder().encode
_params = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class NewCollector:
    """A new collector with its token and secret, which are shown once."""

    id: int
    token: str
    hmac_secret: str


@dataclass(frozen=True, slots=True)
class Collector:
    """A collector without its token and secrets."""

    id: int
    site_id: int
    zone_id: int | None
    device_name: str
    created_at: int
    revoked_at: int | None
    last_seen_at: int | None
    old_secret_until: int | None


class SealedSecrets(msgspec.Struct, frozen=True):
    """A collector's secrets as stored. The old one verifies ACKs until `old_secret_until`."""

    hmac_secret: bytes
    old_hmac_secret: bytes | None
    old_secret_until: int | None


class Credentials(msgspec.Struct, frozen=True):
    """Token digest and sealed secret of a collector that is not revoked."""

    token_hash: bytes
    hmac_secret: bytes

    def match_token_of(self, caller: CollectorCaller) -> bool:
        """Whether the caller's token has not been replaced since it was verified."""
        return caller.token_hash in (None, self.token_hash)


class SecretBox:
    """Seals and opens the secrets of collectors and the secret parameters of commands.

    Opened secrets of collectors are cached by their sealed bytes. `body_mac`: digests of requests that have secret
    parameters; an unkeyed digest would let its reader test guesses.
    """

    def __init__(self, master_key: MasterKey) -> None:
        self._master_key = master_key
        self.open = lru_cache(OPENED_SECRETS_MAX)(self._open)
        self.body_mac = KeyedHash(master_key.derive_key(BODY_PURPOSE))

    def seal(self, secret: str) -> bytes:
        return self._master_key.seal(secret.encode(), SECRET_PURPOSE)

    def seal_params(self, secret_params: Mapping[str, Any]) -> bytes:
        return self._master_key.seal(_encode(secret_params), PARAMS_PURPOSE)

    def open_params(self, sealed: bytes) -> dict[str, Any]:
        return _params.decode(self._master_key.open(sealed, PARAMS_PURPOSE))

    def resealed_params(self, sealed: bytes) -> bytes:
        """Sealed parameters for another row, under the key that seals now: the master key may be changing.

        Parameters that no key opens stay as they are; the poll that gets the command refuses them.
        """
        if self._master_key.is_current(sealed, PARAMS_PURPOSE):
            return sealed
        try:
            return self._master_key.seal(self._master_key.open(sealed, PARAMS_PURPOSE), PARAMS_PURPOSE)
        except MasterKeyError:
            return sealed

    def valid_secrets(self, sealed: SealedSecrets, now_ms: int) -> list[str]:
        """The secrets that may sign an ACK now, the current one first."""
        valid = [self.open(sealed.hmac_secret)]
        if sealed.old_hmac_secret and sealed.old_secret_until and now_ms < sealed.old_secret_until:
            valid.append(self.open(sealed.old_hmac_secret))
        return valid

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
    """Create a collector for an existing site, or for one existing zone of it."""
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
        raise Conflict(f"the site already has a collector named {device_name}")
    _record(conn, trail, site_id, actor, "collector.created", {"device_id": row["id"], "device_name": device_name})
    return NewCollector(row["id"], token, secret)


def find(conn: Connection, device_id: int) -> Collector:
    row = conn.one(SQL.collector, device_id=device_id)
    if row is None:
        raise NotFound("there is no such collector")
    return Collector(**dict(row))


@dataclass(frozen=True, slots=True)
class CollectorFilter:
    """None in a field: any value. `name`: the beginning of the name. `seen_before_ms`: not seen since, or never."""

    site_id: int | None = None
    zone_id: int | None = None
    name: str | None = None
    status: str | None = None
    seen_before_ms: int | None = None
    seen_after_ms: int | None = None


def list_page(
    conn: Connection, filters: CollectorFilter, page: PageRequest, sites: AllowedIds = ALL_IDS
) -> Page[Collector]:
    """A page of the collectors of the allowed sites, ordered by id."""
    return filtered_list.read(conn, filtered(filters, sites), page, lambda row: Collector(**dict(row)))


def counting(filters: CollectorFilter, sites: AllowedIds = ALL_IDS) -> StateCounting:
    """Counts the collectors of the allowed sites that match, in each state."""
    status = "CASE WHEN revoked_at IS NULL THEN 'active' ELSE 'revoked' END"
    return StateCounting(lambda _conn: filtered(filters, sites), status, STATUSES)


def filtered(filters: CollectorFilter, sites: AllowedIds) -> FilteredList:
    """The list of the collectors that match: those of a site are read from its index."""
    site_id = site_filter(sites, filters.site_id)
    seen_before = filters.seen_before_ms
    return FilteredList(
        "id, site_id, zone_id, device_name, created_at, revoked_at, last_seen_at, old_secret_until",
        "edge_devices",
        is_descending=False,
        indexed=equal("site_id", site_id),
        rest=(
            *among("site_id", None if site_id is not None and site_id in sites else sites.as_json()),
            *equal("zone_id", filters.zone_id),
            *begins("device_name", filters.name),
            *is_null("revoked_at", None if filters.status is None else filters.status == "active"),
            *between("last_seen_at", filters.seen_after_ms, None),
            *(
                ()
                if seen_before is None
                else (Condition("COALESCE(last_seen_at, 0) < :seen_before", {"seen_before": seen_before}),)
            ),
        ),
    )


def rotate_token(conn: Connection, trail: AuditTrail, device_id: int, actor: str) -> str:
    """Replace the token; the old one ends with this transaction."""
    collector = _unrevoked(conn, device_id)
    token = collector_tokens.make()
    conn.run(SQL.put_token, device_id=device_id, token_hash=secret_tokens.digest(token))
    _end_token(conn, device_id)
    _record(conn, trail, collector.site_id, actor, "collector.token_rotated", {"device_id": device_id})
    return token


def rotate_secret(
    conn: Connection, trail: AuditTrail, box: SecretBox, device_id: int, overlap_seconds: int, actor: str
) -> str:
    """Replace the secret; the old one still verifies ACKs during the overlap."""
    collector = _unrevoked(conn, device_id)
    secret = secrets.token_hex(SECRET_BYTES)
    until = conn.now_ms + overlap_seconds * 1000
    conn.run(SQL.put_secret, device_id=device_id, hmac_secret=box.seal(secret), old_secret_until=until)
    detail = {"device_id": device_id, "old_secret_until": until}
    _record(conn, trail, collector.site_id, actor, "collector.secret_rotated", detail)
    return secret


def revoke(conn: Connection, trail: AuditTrail, device_id: int, actor: str) -> None:
    """Revoke the collector; others get its commands when its leases expire. Revoking twice changes nothing."""
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
    """Start to read the credentials of the collectors that are not revoked; the returned function yields them."""
    rows = conn.prefetch(SQL.credentials, device_ids=_encode(list(device_ids)).decode())
    return lambda: {device_id: Credentials(token_hash, secret) for device_id, token_hash, secret in rows()}


def write_last_seen(conn: Connection, seen: list[tuple[int, float]]) -> None:
    conn.run_many(SQL.last_seen, [{"device_id": device_id, "seen_ms": int(at * 1000)} for device_id, at in seen])


def _unrevoked(conn: Connection, device_id: int) -> Collector:
    collector = find(conn, device_id)
    if collector.revoked_at is not None:
        raise Conflict("the collector is revoked")
    return collector


def _end_token(conn: Connection, device_id: int) -> None:
    revocation_counter.increment(conn)
    conn.add_commit_event(CollectorRevoked(device_id))


def _record(conn: Connection, trail: AuditTrail, site_id: int, actor: str, event: str, detail: dict[str, Any]) -> None:
    trail.record(conn, AuditEntry(site_id, actor, event, None, None, None, detail))
