"""Creating a command: the single entry point for operators, the command line and automation rules.

Decides which miners the command is for, whether it needs approval, when it expires, and its place in the queue. Knows
nothing of permissions.

Invariants: at most one active command has a given dedupe key; the database's unique index guarantees it, not a previous
read. No command is stored that cannot be signed.
"""

import hashlib
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.dispatch import rate_limits, settlement
from restante.commands.dispatch.next_due import lower_next_due
from restante.commands.dispatch.rate_limits import RateRules
from restante.commands.errors import DuplicateActive, RateLimited
from restante.commands.lifecycle import approval, approval_policy, secret_params
from restante.commands.lifecycle import makers as command_makers
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.lifecycle.cancellation import SUPERSEDED, Ending, end, find
from restante.commands.lifecycle.command_types import TARGETS_PARAM, checked_params, params_digest, standard_type
from restante.commands.lifecycle.ordering import PRIORITY_MAX, SITE_LOCK, CommandsChanged, rank_of
from restante.commands.lifecycle.secret_params import SplitParams
from restante.commands.sites import miners, sites
from restante.commands.sites.collectors import SecretBox
from restante.core.commands.canonical import canonical_json
from restante.core.commands.command_states import Event, State
from restante.core.errors import BadInput, Unavailable
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

TTL_DEFAULT_SECONDS = 3600
SHORT_TTL_SECONDS = 60
TTL_MAX_SECONDS = 366 * 86_400
TARGETS_MAX = 100_000
RETRIES_MAX = 100
DEDUPE_KEY_CHARACTERS_MAX = 128
# How often an insert is tried again because the other command with the dedupe key has just ended.
INSERTS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationOptions:
    max_retries: int
    retry_backoff_sec: int
    priority_ageing_seconds: int
    rate_rules: RateRules
    approval: ApprovalRules
    box: SecretBox


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """A request for a command. Exactly one of `miner_id`, `target_ids` and `all_miners` names the miners. `params` is
    JSON text. `sealed_params`: the values behind masks in `params`, as a rule stores them. `supersedes`: the command
    that this one replaces; it is cancelled with a reference to this one."""

    site_id: int
    command_type: str
    miner_id: int | None = None
    target_ids: list[int] | None = None
    all_miners: bool = False
    zone_id: int | None = None
    params: bytes = b"{}"
    sealed_params: bytes | None = None
    priority: int = 0
    ttl_sec: int | None = None
    expires_at_ms: int | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    rule_id: int | None = None
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
    created_at: Timestamp
    expires_at: Timestamp
    dedupe_key: str | None


class _Targets(msgspec.Struct, frozen=True):
    """The miners of a command. A command for many has no `miner_id`; its parameters list their ids."""

    zone_id: int
    miner_id: int | None
    target_ids: list[int] | None

    @property
    def miner_count(self) -> int:
        return 1 if self.target_ids is None else len(self.target_ids)


def create(
    conn: Connection,
    trail: AuditTrail,
    request: CommandRequest,
    actor: str,
    options: CreationOptions,
    makers: Sequence[str] = (),
    needs_approval: bool = False,
    approved_by: str | None = None,
) -> Created:
    """Create the command, pending or waiting for approval; raise if the request is refused.

    `makers`: the identities behind the actor. `needs_approval`: the request as a whole needs it. `approved_by`: who has
    approved the whole request already.
    """
    command_type = standard_type(request.command_type)
    all_makers = [actor, *makers]
    policy = approval_policy.rules(conn, options.approval)
    if request.rule_id is None:
        lock_makers(conn, policy, all_makers)
    params = _split_params(command_type, request, options.box)
    _check_plain_fields(request)
    conn.lock(SITE_LOCK, request.site_id)
    expires_at = _expires_at(conn, request)
    targets = _find_targets(conn, request)
    if targets.target_ids is not None:
        params.shown[TARGETS_PARAM] = targets.target_ids
    _check_rate(conn, options.rate_rules, request.site_id, command_type)
    needs_approval = approved_by is None and (
        needs_approval
        or approval.is_needed(conn, policy, all_makers, command_type, targets.miner_count, targets.miner_id)
    )
    columns: dict[str, Any] = {
        "command_id": f"cmd_{secrets.token_hex(12)}",
        "site_id": request.site_id,
        "zone_id": targets.zone_id,
        "miner_id": targets.miner_id,
        "command_type": command_type,
        "params": canonical_json(params.shown).decode(),
        "sealed_params": params.sealed,
        "priority": request.priority,
        "rank": rank_of(conn.now_ms, request.priority, options.priority_ageing_seconds),
        "status": (State.pending_approval if needs_approval else State.pending).value,
        "expires_at": expires_at,
        "dedupe_key": request.dedupe_key,
        "created_at": conn.now_ms,
        "created_by": actor,
        "approved_by": approved_by,
        "approved_at": None if approved_by is None else conn.now_ms,
        "rule_id": request.rule_id,
        "max_retries": options.max_retries if request.max_retries is None else request.max_retries,
        "retry_backoff_sec": options.retry_backoff_sec,
    }
    if request.supersedes is not None:
        _supersede(conn, trail, request, actor, columns["command_id"])
    _insert(conn, trail, columns)
    command_makers.record(conn, columns["command_id"], all_makers, command_type, targets.miner_id, targets.miner_count)
    lower_next_due(conn, [(request.site_id, expires_at)])
    created = _created(columns, targets)
    trail.record(conn, _entry(created, request, columns, actor))
    conn.add_commit_event(CommandsChanged(request.site_id))
    return created


def lock_makers(conn: Connection, policy: ApprovalRules, makers: Sequence[str]) -> None:
    """Let the commands of a maker count one after another, before any site is locked.

    Rules fire under the lock of their site, so their commands are counted without this lock.
    """
    if policy.miners_from is not None:
        conn.lock("command makers", *sorted(set(makers)))


def count_miners(conn: Connection, requests: Sequence[CommandRequest]) -> dict[str, int]:
    """How many miners these requests concern, by command type. A miner counts once for each type."""
    single: dict[str, set[int]] = {}
    many: Counter[str] = Counter()
    for request in requests:
        command_type = standard_type(request.command_type)
        if request.miner_id is not None:
            single.setdefault(command_type, set()).add(request.miner_id)
        else:
            many[command_type] += _find_targets(conn, request).miner_count
    return {name: many[name] + len(single.get(name, ())) for name in {*many, *single}}


def _split_params(command_type: str, request: CommandRequest, box: SecretBox) -> SplitParams:
    params = checked_params(command_type, request.params)
    if request.sealed_params is not None:
        return SplitParams(params, box.resealed_params(request.sealed_params))
    return secret_params.split(box, command_type, params)


def _check_plain_fields(request: CommandRequest) -> None:
    if not 0 <= request.priority <= PRIORITY_MAX:
        raise BadInput("priority", f"a whole number from 0 to {PRIORITY_MAX}")
    if request.max_retries is not None and not 0 <= request.max_retries <= RETRIES_MAX:
        raise BadInput("max_retries", f"a whole number from 0 to {RETRIES_MAX}")
    key = request.dedupe_key
    if key is not None and not (1 <= len(key) <= DEDUPE_KEY_CHARACTERS_MAX and key.isprintable()):
        raise BadInput("dedupe_key", f"1 to {DEDUPE_KEY_CHARACTERS_MAX} printable characters")


def _find_targets(conn: Connection, request: CommandRequest) -> _Targets:
    named = [request.miner_id is not None, request.target_ids is not None, request.all_miners]
    if sum(named) != 1:
        raise BadInput("miner_id", "exactly one of miner_id, target_ids and all_miners")
    site = sites.require_site(conn, request.site_id)
    if request.zone_id is not None:
        sites.require_zone(conn, site.id, request.zone_id)
    if request.miner_id is not None:
        target = miners.require_miner(conn, site.id, request.miner_id)
        if request.zone_id not in (None, target.zone_id):
            raise BadInput("zone_id", "the zone of the miner")
        return _Targets(target.zone_id, target.id, None)
    selected = _select(miners.list_targets(conn, site.id, request.zone_id), request.target_ids)
    zones = {target.zone_id for target in selected}
    # A command for miners of several zones belongs to the site's default zone.
    zone_id = zones.pop() if len(zones) == 1 else site.default_zone_id
    return _Targets(zone_id, None, [target.id for target in selected])


def _select(available: list[miners.Target], target_ids: list[int] | None) -> list[miners.Target]:
    if target_ids is None:
        if not 1 <= len(available) <= TARGETS_MAX:
            raise BadInput("all_miners", f"a site or zone with 1 to {TARGETS_MAX} miners")
        return available
    if not 1 <= len(target_ids) <= TARGETS_MAX or len(set(target_ids)) != len(target_ids):
        raise BadInput("target_ids", f"1 to {TARGETS_MAX} ids, each once")
    by_id = {target.id: target for target in available}
    try:
        return [by_id[target_id] for target_id in target_ids]
    except KeyError:
        raise BadInput("target_ids", "ids of miners of the site, and of the zone if one is named") from None


def _check_rate(conn: Connection, rules: RateRules, site_id: int, command_type: str) -> None:
    """Refuse the request if the type's rate window is full. Dispatched commands count, waiting ones do not: claims
    leave those over the limit in the queue."""
    allowance = rate_limits.allowance(conn, rules, site_id, command_type)
    if allowance.left <= 0:
        frees_at = allowance.frees_at_ms or conn.now_ms
        seconds = max(1, -(-(frees_at - conn.now_ms) // 1000))
        raise RateLimited(f"the limit of {command_type} at site {site_id} is reached", retry_after_seconds=seconds)


def _expires_at(conn: Connection, request: CommandRequest) -> int:
    """The expiry in whole seconds, as it is signed and shown. A lifetime counts from the second in which the command is
    made; a time and a short lifetime are rounded up."""
    if request.expires_at_ms is not None and request.ttl_sec is not None:
        raise BadInput("expires_at", "either this or ttl_sec")
    if request.ttl_sec is not None and not 1 <= request.ttl_sec <= TTL_MAX_SECONDS:
        raise BadInput("ttl_sec", f"a whole number from 1 to {TTL_MAX_SECONDS}")
    ttl_sec = TTL_DEFAULT_SECONDS if request.ttl_sec is None else request.ttl_sec
    # Of a short lifetime, a part of a second would be missed.
    created_at = conn.now_ms if ttl_sec < SHORT_TTL_SECONDS else conn.now_ms // 1000 * 1000
    expires_at = request.expires_at_ms if request.expires_at_ms is not None else created_at + ttl_sec * 1000
    if not conn.now_ms < expires_at <= conn.now_ms + TTL_MAX_SECONDS * 1000:
        raise BadInput("expires_at", "a time to come, within a year")
    return -(-expires_at // 1000) * 1000


def _supersede(conn: Connection, trail: AuditTrail, request: CommandRequest, actor: str, command_id: str) -> None:
    replaced = find(conn, request.supersedes or "")
    if replaced["site_id"] != request.site_id:
        raise BadInput("supersedes", "a command of the same site")
    end(conn, trail, replaced, Event.cancel, actor, Ending(SUPERSEDED, superseded_by=command_id))


def _insert(conn: Connection, trail: AuditTrail, columns: dict[str, Any]) -> None:
    for _ in range(INSERTS_MAX):
        if conn.one(SQL.insert_command, **columns) is not None:
            return
        other = conn.one(SQL.command_with_key, dedupe_key=columns["dedupe_key"], status=columns["status"])
        if other is not None and other["expires_at"] > conn.now_ms:
            raise DuplicateActive(other["command_id"])
        if other is not None:
            # It has expired, but its site was not settled since.
            settlement.apply_settlement(conn, trail, other["site_id"])
        # Otherwise it has just ended, at another site, which this transaction has not locked.
    raise Unavailable("other commands with this dedupe key start and end too fast", retry_after_seconds=1)


def _created(columns: dict[str, Any], targets: _Targets) -> Created:
    shown = {name: columns[name] for name in Created.__struct_fields__ if name in columns}
    times = {name: iso_precise(columns[name]) for name in ("created_at", "expires_at")}
    return Created(**{**shown, **times}, miner_count=targets.miner_count)


def _entry(created: Created, request: CommandRequest, columns: dict[str, Any], actor: str) -> AuditEntry:
    detail = {
        **msgspec.structs.asdict(created),
        "rule_id": request.rule_id,
        "supersedes": request.supersedes,
        "params_sha256": params_digest(columns["params"]),
    }
    if columns["approved_by"] is not None:
        detail["approved_by"] = columns["approved_by"]
    if columns["sealed_params"] is not None:
        # The hash of the sealed bytes, which are random: it proves what was sent and reveals nothing of the value.
        detail["sealed_params_sha256"] = hashlib.sha256(columns["sealed_params"]).hexdigest()
    del detail["command_id"], detail["status"], detail["site_id"], detail["created_at"]
    return AuditEntry(created.site_id, actor, "command.created", created.command_id, None, created.status, detail)
