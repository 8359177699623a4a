"""Making a command: the one way in, for operators, the command line and automation rules.

Decides what a wish becomes: which miners it is for, whether it needs approval, when it expires, its place in the queue.
Knows nothing of who may wish. Must always hold: of the active commands with one dedupe key there is one, because
the database's unique index says so and not because somebody looked; and nothing is stored that cannot be signed.
"""

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any

import msgspec

from restante.commands import leases, miners, rate_windows, sites
from restante.commands.approval import ApprovalRules
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.cancelling import SUPERSEDED, Ending, end, find
from restante.commands.command_types import TARGETS_PARAM, checked_params, standard_type
from restante.commands.queue import PRIORITY_MAX, SITE_LOCK, CommandsChanged, rank_of
from restante.commands.rate_windows import RateRules
from restante.commands.site_quiet import disturb
from restante.commands.wire import DuplicateActive, RateLimited, iso
from restante.core.canonical import canonical
from restante.core.command_states import Event, State
from restante.core.errors import BadInput, Unavailable
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

TTL_DEFAULT_SECONDS = 3600
TTL_MAX_SECONDS = 366 * 86_400
TARGETS_MAX = 100_000
RETRIES_MAX = 100
DEDUPE_KEY_CHARACTERS_MAX = 128
# Each time the key's holder has just ended.
INSERTS_MAX = 5


@dataclass(frozen=True, slots=True)
class CreationOptions:
    rate_rules: RateRules = field(default_factory=RateRules)
    approval: ApprovalRules = field(default_factory=ApprovalRules)
    max_retries: int = 3
    retry_backoff_sec: int = 30
    priority_ageing_seconds: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWish:
    """What somebody wants done. The miners are named in exactly one of three ways; `params` is a JSON text."""

    site_id: int
    command_type: str
    miner_id: int | None = None
    target_ids: list[int] | None = None
    all_miners: bool = False
    zone_id: int | None = None
    params: bytes = b"{}"
    priority: int = 0
    ttl_sec: int | None = None
    expires_at_ms: int | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    rule_id: int | None = None
    # The command that this one replaces: it is cancelled, and says by which.
    supersedes: str | None = None


class Created(msgspec.Struct, frozen=True):
    command_id: str
    status: str
    site_id: int
    zone_id: int
    miner_id: int | None
    miner_count: int
    command_type: str
    priority: int
    created_at: str
    expires_at: str
    dedupe_key: str | None


class _Aim(msgspec.Struct, frozen=True):
    """Whom a command is for. A command for many has no miner_id; they are in its parameters."""

    zone_id: int
    miner_id: int | None
    target_ids: list[int] | None

    @property
    def miner_count(self) -> int:
        return 1 if self.target_ids is None else len(self.target_ids)


def create(
    conn: Connection,
    trail: AuditTrail,
    wish: CommandWish,
    actor: str,
    options: CreationOptions = CreationOptions(),  # noqa: B008 — it cannot be changed
) -> Created:
    """The command that was wished for, waiting to be handed out or approved; or why there is none."""
    command_type = standard_type(wish.command_type)
    params = checked_params(command_type, wish.params)
    _check_plain_fields(wish)
    conn.lock(SITE_LOCK, wish.site_id)
    expires_at = _expires_at(conn, wish)
    aim = _aim(conn, wish)
    if aim.target_ids is not None:
        params[TARGETS_PARAM] = aim.target_ids
    _check_rate(conn, options.rate_rules, wish.site_id, command_type)
    needs_approval = options.approval.is_needed(command_type, aim.miner_count)
    columns: dict[str, Any] = {
        "command_id": f"cmd_{secrets.token_hex(12)}",
        "site_id": wish.site_id,
        "zone_id": aim.zone_id,
        "miner_id": aim.miner_id,
        "command_type": command_type,
        "params": canonical(params).decode(),
        "priority": wish.priority,
        "rank": rank_of(conn.now_ms, wish.priority, options.priority_ageing_seconds),
        "status": (State.pending_approval if needs_approval else State.pending).value,
        "expires_at": expires_at,
        "dedupe_key": wish.dedupe_key,
        "created_at": conn.now_ms,
        "created_by": actor,
        "rule_id": wish.rule_id,
        "max_retries": options.max_retries if wish.max_retries is None else wish.max_retries,
        "retry_backoff_sec": options.retry_backoff_sec,
    }
    if wish.supersedes is not None:
        _supersede(conn, trail, wish, actor, columns["command_id"])
    _insert(conn, trail, columns)
    disturb(conn, [(wish.site_id, expires_at)])
    created = _created(columns, aim)
    trail.record(conn, _entry(created, wish, columns["params"], actor))
    conn.announce(CommandsChanged(wish.site_id))
    return created


def _check_plain_fields(wish: CommandWish) -> None:
    if not 0 <= wish.priority <= PRIORITY_MAX:
        raise BadInput("priority", f"a whole number from 0 to {PRIORITY_MAX}")
    if wish.max_retries is not None and not 0 <= wish.max_retries <= RETRIES_MAX:
        raise BadInput("max_retries", f"a whole number from 0 to {RETRIES_MAX}")
    key = wish.dedupe_key
    if key is not None and not (1 <= len(key) <= DEDUPE_KEY_CHARACTERS_MAX and key.isprintable()):
        raise BadInput("dedupe_key", f"1 to {DEDUPE_KEY_CHARACTERS_MAX} printable characters")


def _aim(conn: Connection, wish: CommandWish) -> _Aim:
    named = [wish.miner_id is not None, wish.target_ids is not None, wish.all_miners]
    if sum(named) != 1:
        raise BadInput("miner_id", "exactly one of miner_id, target_ids and all_miners")
    site = sites.require_site(conn, wish.site_id)
    if wish.zone_id is not None:
        sites.require_zone(conn, site.id, wish.zone_id)
    if wish.miner_id is not None:
        target = miners.require_one(conn, site.id, wish.miner_id)
        if wish.zone_id not in (None, target.zone_id):
            raise BadInput("zone_id", "the zone of the miner")
        return _Aim(target.zone_id, target.id, None)
    chosen = _chosen(miners.all_of(conn, site.id, wish.zone_id), wish.target_ids)
    zones = {target.zone_id for target in chosen}
    # Miners of several zones are one command all the same; it then belongs where the site's unzoned things do.
    zone_id = zones.pop() if len(zones) == 1 else site.default_zone_id
    return _Aim(zone_id, None, [target.id for target in chosen])


def _chosen(there: list[miners.Target], target_ids: list[int] | None) -> list[miners.Target]:
    if target_ids is None:
        if not 1 <= len(there) <= TARGETS_MAX:
            raise BadInput("all_miners", f"a site or zone with 1 to {TARGETS_MAX} miners")
        return there
    if not 1 <= len(target_ids) <= TARGETS_MAX or len(set(target_ids)) != len(target_ids):
        raise BadInput("target_ids", f"1 to {TARGETS_MAX} ids, each once")
    by_id = {target.id: target for target in there}
    try:
        return [by_id[target_id] for target_id in target_ids]
    except KeyError:
        raise BadInput("target_ids", "ids of miners of the site, and of the zone if one is named") from None


def _check_rate(conn: Connection, rules: RateRules, site_id: int, command_type: str) -> None:
    """What has been handed out counts, not what waits: see the poll, which holds back what is over the limit."""
    allowance = rate_windows.allowance(conn, rules, site_id, command_type)
    if allowance.left <= 0:
        frees_at = allowance.frees_at_ms or conn.now_ms
        seconds = max(1, -(-(frees_at - conn.now_ms) // 1000))
        raise RateLimited(f"the limit of {command_type} at site {site_id} is reached", retry_after_seconds=seconds)


def _expires_at(conn: Connection, wish: CommandWish) -> int:
    """A whole second, because it is signed and shown as one: never sooner than was wished."""
    if wish.expires_at_ms is not None and wish.ttl_sec is not None:
        raise BadInput("expires_at", "either this or ttl_sec")
    if wish.ttl_sec is not None and not 1 <= wish.ttl_sec <= TTL_MAX_SECONDS:
        raise BadInput("ttl_sec", f"a whole number from 1 to {TTL_MAX_SECONDS}")
    ttl_sec = TTL_DEFAULT_SECONDS if wish.ttl_sec is None else wish.ttl_sec
    expires_at = wish.expires_at_ms if wish.expires_at_ms is not None else conn.now_ms + ttl_sec * 1000
    if not conn.now_ms < expires_at <= conn.now_ms + TTL_MAX_SECONDS * 1000:
        raise BadInput("expires_at", "a time to come, within a year")
    return -(-expires_at // 1000) * 1000


def _supersede(conn: Connection, trail: AuditTrail, wish: CommandWish, actor: str, command_id: str) -> None:
    replaced = find(conn, wish.supersedes or "")
    if replaced["site_id"] != wish.site_id:
        raise BadInput("supersedes", "a command of the same site")
    end(conn, trail, replaced, Event.cancel, actor, Ending(SUPERSEDED, superseded_by=command_id))


def _insert(conn: Connection, trail: AuditTrail, columns: dict[str, Any]) -> None:
    for _ in range(INSERTS_MAX):
        if conn.one(SQL.insert_command, **columns) is not None:
            return
        holder = conn.one(SQL.holder_of_key, dedupe_key=columns["dedupe_key"], status=columns["status"])
        if holder is not None and holder["expires_at"] > conn.now_ms:
            raise DuplicateActive(holder["command_id"])
        if holder is not None:
            # It has expired without anybody having looked at it since.
            leases.settle(conn, trail, holder["site_id"])
        # Else it has ended just now, at another site, whose queue is not ours to hold.
    raise Unavailable("the dedupe key is given and taken back faster than it can be had", retry_after_seconds=1)


def _created(columns: dict[str, Any], aim: _Aim) -> Created:
    shown = {name: columns[name] for name in Created.__struct_fields__ if name in columns}
    times = {name: iso(columns[name]) for name in ("created_at", "expires_at")}
    return Created(**{**shown, **times}, miner_count=aim.miner_count)


def _entry(created: Created, wish: CommandWish, params: str, actor: str) -> AuditEntry:
    """Everything about the new command but its parameters, which may hold a password: of them, the digest."""
    detail = {
        **msgspec.structs.asdict(created),
        "rule_id": wish.rule_id,
        "supersedes": wish.supersedes,
        "params_sha256": hashlib.sha256(params.encode()).hexdigest(),
    }
    del detail["command_id"], detail["status"], detail["site_id"], detail["created_at"]
    return AuditEntry(created.site_id, actor, "command.created", created.command_id, None, created.status, detail)
