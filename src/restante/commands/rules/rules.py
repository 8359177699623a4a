"""Automation rules: commands that the server creates when telemetry crosses a threshold or stops.

This module validates and stores rules. It does not evaluate them: see `rule_evaluation`.

Invariants: the action of a rule is a command that could be created now: its type is known and its parameters can be
signed. Every change gives the site a new revision, so no node goes on with the old rules.
"""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.body_ids import BodyWithIds, Id
from restante.commands.lifecycle import makers, secret_params
from restante.commands.lifecycle.command_types import checked_params, standard_type
from restante.commands.lifecycle.ordering import PRIORITY_MAX, SITE_LOCK
from restante.commands.lifecycle.secret_params import SplitParams, masked_text
from restante.commands.sites import sites
from restante.commands.sites.collectors import SecretBox
from restante.commands.sites.site_scope import site_filter
from restante.commands.telemetry.measurement_names import MEASUREMENTS
from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.core.suggestions import misspelt
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

RULES_MAX = 1000
MINERS_MAX = 1000
DURATION_MAX_SECONDS = 7 * 86_400
COOLDOWN_MAX_SECONDS = 30 * 86_400
COOLDOWN_DEFAULT_SECONDS = 1800
# Collectors report every few seconds at best, so a shorter silence means nothing.
OFFLINE_MIN_SECONDS = 10
NOT_METRICS = ("miner_id", "ts")

Name = Annotated[str, Meta(min_length=1, max_length=sites.NAME_CHARACTERS_MAX)]
MinerIds = Annotated[list[Id], Meta(min_length=1, max_length=MINERS_MAX)]
TriggerType = Literal["threshold", "offline"]
Metric = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.:-]+$")]
Operator = Literal[">", ">=", "<", "<=", "=="]
Duration = Annotated[int, Meta(ge=0, le=DURATION_MAX_SECONDS)]
Cooldown = Annotated[int, Meta(ge=0, le=COOLDOWN_MAX_SECONDS)]
Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX)]


class RuleRequest(BodyWithIds, frozen=True, forbid_unknown_fields=True):
    """A new or replaced rule. `miner_ids` None means every miner of the site."""

    id_fields = ("site_id", "miner_ids")

    name: Name
    site_id: Id
    trigger_type: TriggerType
    action_type: str
    miner_ids: MinerIds | None = None
    trigger_metric: Metric | None = None
    trigger_operator: Operator | None = None
    trigger_value: float | None = None
    trigger_duration_seconds: Duration = 0
    action_parameters: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    cooldown_seconds: Cooldown = COOLDOWN_DEFAULT_SECONDS
    priority: Priority = 0
    enabled: bool = True


class RuleChange(BodyWithIds, frozen=True, forbid_unknown_fields=True):
    """The fields of a rule to change. The site of a rule cannot change."""

    id_fields = ("miner_ids",)

    name: Name | UnsetType = UNSET
    trigger_type: TriggerType | UnsetType = UNSET
    action_type: str | UnsetType = UNSET
    miner_ids: MinerIds | UnsetType | None = UNSET
    trigger_metric: Metric | UnsetType | None = UNSET
    trigger_operator: Operator | UnsetType | None = UNSET
    trigger_value: float | UnsetType | None = UNSET
    trigger_duration_seconds: Duration | UnsetType = UNSET
    action_parameters: msgspec.Raw | UnsetType = UNSET
    cooldown_seconds: Cooldown | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class Rule(msgspec.Struct, frozen=True):
    id: int
    name: str
    site_id: int
    miner_ids: list[int] | None
    trigger_type: str
    trigger_metric: str | None
    trigger_operator: str | None
    trigger_value: float | None
    trigger_duration_seconds: int
    action_type: str
    action_parameters: dict[str, Any]
    cooldown_seconds: int
    priority: int
    enabled: bool
    created_by: str
    created_at: Timestamp
    updated_at: Timestamp


class RuleState(msgspec.Struct, frozen=True):
    """The state of a rule for a miner: since when its condition holds, when it last fired, and the outcome."""

    miner_id: int
    holds_since: Timestamp | None
    last_fired_at: Timestamp | None
    last_outcome: str | None
    last_command_id: str | None
    quiet_until: Timestamp | None


def create(
    conn: Connection,
    trail: AuditTrail,
    box: SecretBox,
    request: RuleRequest,
    actor: str,
    identities: Sequence[str] = (),
) -> Rule:
    """Create the rule. `identities`: those behind the actor, who become makers of the rule's commands."""
    conn.lock(SITE_LOCK, request.site_id)
    sites.require_site(conn, request.site_id)
    values = _checked_columns(conn, box, request)
    counted = conn.one(SQL.count_of_site, site_id=request.site_id)
    if counted is not None and counted["rules"] >= RULES_MAX:
        raise Conflict(f"the site already has {RULES_MAX} rules, the most it can have")
    row = conn.one(SQL.insert_rule, **values, site_id=request.site_id, actor=actor, now_ms=conn.now_ms)
    return _finish_write(conn, trail, row, actor, identities, "rule.created")


def replace(
    conn: Connection,
    trail: AuditTrail,
    box: SecretBox,
    rule_id: int,
    request: RuleRequest,
    actor: str,
    identities: Sequence[str] = (),
) -> Rule:
    """Replace the rule. Its runs start again; the time when it last fired is kept. A masked parameter keeps its
    value."""
    rule = _lock(conn, rule_id)
    if request.site_id != rule.site_id:
        raise BadInput("site_id", "the site of the rule, which cannot change")
    stored = _stored_params(conn, rule_id)
    row = conn.one(SQL.update_rule, **_checked_columns(conn, box, request, stored), rule_id=rule_id, now_ms=conn.now_ms)
    conn.run(SQL.restart_states, rule_id=rule_id, cooldown_seconds=request.cooldown_seconds)
    return _finish_write(conn, trail, row, actor, identities, "rule.changed")


def change(
    conn: Connection,
    trail: AuditTrail,
    box: SecretBox,
    rule_id: int,
    changes: RuleChange,
    actor: str,
    identities: Sequence[str] = (),
) -> Rule:
    changed = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    request = msgspec.structs.replace(_as_request(_lock(conn, rule_id)), **changed)
    return replace(conn, trail, box, rule_id, request, actor, identities)


def delete(conn: Connection, trail: AuditTrail, rule_id: int, actor: str) -> None:
    rule = _lock(conn, rule_id)
    conn.run(SQL.delete_rule, rule_id=rule_id)
    _record_change(conn, trail, rule, actor, "rule.deleted")


def get(conn: Connection, rule_id: int) -> Rule:
    row = conn.one(SQL.rule, rule_id=rule_id)
    if row is None:
        raise NotFound("there is no such rule")
    return _rule(row)


def list_page(
    conn: Connection, site_id: int | None, enabled: bool | None, page: PageRequest, allowed: AllowedIds = ALL_IDS
) -> Page[Rule]:
    """A page of the rules of one site, or of all allowed sites."""
    site_id = site_filter(allowed, site_id)
    query = SQL.rules if site_id is None else SQL.rules_of_site
    filters = {"site_id": site_id, "sites": allowed.as_json(), "enabled": None if enabled is None else int(enabled)}
    rows = conn.all(query, **filters, after=page.after, limit=page.limit + 1)
    return page_of(rows, page, "id", _rule)


def states(conn: Connection, rule_id: int, page: PageRequest) -> Page[RuleState]:
    get(conn, rule_id)
    rows = conn.all(SQL.states, rule_id=rule_id, after=page.after, limit=page.limit + 1)
    return page_of(rows, page, "miner_id", _state)


def put_revision(conn: Connection, site_id: int) -> int:
    """Give the site a new revision. It is random, not counted: a rolled-back revision must never occur again."""
    revision = secrets.randbits(62)
    conn.run(SQL.put_revision, site_id=site_id, revision=revision)
    return revision


def _lock(conn: Connection, rule_id: int) -> Rule:
    """Lock the rule's site, then read the rule: it cannot change until the transaction ends."""
    conn.lock(SITE_LOCK, get(conn, rule_id).site_id)
    return get(conn, rule_id)


def _stored_params(conn: Connection, rule_id: int) -> SplitParams | None:
    row = conn.one(SQL.rule, rule_id=rule_id)
    return None if row is None else SplitParams(msgspec.json.decode(row["action_parameters"]), row["sealed_params"])


def _checked_columns(
    conn: Connection, box: SecretBox, request: RuleRequest, stored: SplitParams | None = None
) -> dict[str, Any]:
    """The columns of the requested rule; BadInput if it is not valid."""
    sites.checked_name(request.name)
    if request.trigger_type == "offline":
        _check_offline(request)
    else:
        _check_threshold(request)
    action_type = standard_type(request.action_type, "action_type")
    checked = checked_params(action_type, bytes(request.action_parameters), "action_parameters")
    parameters = secret_params.split(box, action_type, checked, stored, "action_parameters")
    return {
        **{name: getattr(request, name) for name in _COPIED_COLUMNS},
        "enabled": int(request.enabled),
        "action_type": action_type,
        "action_parameters": msgspec.json.encode(parameters.shown).decode(),
        "sealed_params": parameters.sealed,
        "miner_ids": None if request.miner_ids is None else _checked_miners(conn, request.site_id, request.miner_ids),
    }


_COPIED_COLUMNS = (
    *("name", "trigger_type", "trigger_metric", "trigger_operator", "trigger_value", "trigger_duration_seconds"),
    *("cooldown_seconds", "priority"),
)


def _check_threshold(request: RuleRequest) -> None:
    for name in ("trigger_metric", "trigger_operator", "trigger_value"):
        if getattr(request, name) is None:
            raise BadInput(name, "a value, because a threshold rule needs it")
    if request.trigger_metric in NOT_METRICS:
        raise BadInput("trigger_metric", "the name of a measurement")
    meant = misspelt(request.trigger_metric or "", MEASUREMENTS)
    if meant is not None:
        raise BadInput("trigger_metric", f"the name of a measurement; did you mean {meant}?")


def _check_offline(request: RuleRequest) -> None:
    for name in ("trigger_metric", "trigger_operator", "trigger_value"):
        if getattr(request, name) is not None:
            raise BadInput(name, "no value, because an offline rule has no threshold")
    if request.trigger_duration_seconds < OFFLINE_MIN_SECONDS:
        raise BadInput("trigger_duration_seconds", f"at least {OFFLINE_MIN_SECONDS} seconds of silence")


def _checked_miners(conn: Connection, site_id: int, miner_ids: list[int]) -> str:
    if len(set(miner_ids)) != len(miner_ids):
        raise BadInput("miner_ids", "each miner once")
    text = msgspec.json.encode(miner_ids).decode()
    found = conn.one(SQL.miners_among, site_id=site_id, miner_ids=text)
    if found is None or found["miners"] != len(miner_ids):
        raise BadInput("miner_ids", "ids of miners of the site")
    return text


def _finish_write(
    conn: Connection, trail: AuditTrail, row: Row | None, actor: str, identities: Sequence[str], event: str
) -> Rule:
    assert row is not None  # noqa: S101 — the statement returns the row that it wrote
    rule = _rule(row)
    makers.add_to_rule(conn, rule.id, [actor, *identities])
    _record_change(conn, trail, rule, actor, event)
    return rule


def _record_change(conn: Connection, trail: AuditTrail, rule: Rule, actor: str, event: str) -> None:
    put_revision(conn, rule.site_id)
    # Parameters may contain a pool's password, so they are left out of the audit trail.
    detail = {name: value for name, value in msgspec.structs.asdict(rule).items() if name != "action_parameters"}
    trail.record(conn, AuditEntry(rule.site_id, actor, event, None, None, None, detail))


def _as_request(rule: Rule) -> RuleRequest:
    fields = {name: getattr(rule, name) for name in RuleRequest.__struct_fields__}
    return RuleRequest(**{**fields, "action_parameters": msgspec.Raw(msgspec.json.encode(rule.action_parameters))})


def _rule(row: Row) -> Rule:
    return Rule(
        **{
            **{name: row[name] for name in Rule.__struct_fields__},
            "miner_ids": None if row["miner_ids"] is None else msgspec.json.decode(row["miner_ids"]),
            "action_parameters": msgspec.json.decode(masked_text(row["action_type"], row["action_parameters"])),
            "enabled": bool(row["enabled"]),
            "created_at": iso_precise(row["created_at"]),
            "updated_at": iso_precise(row["updated_at"]),
        }
    )


def _state(row: Row) -> RuleState:
    return RuleState(
        row["miner_id"],
        iso_precise(row["holds_since"]),
        iso_precise(row["last_fired_at"]),
        row["last_outcome"],
        row["last_command_id"],
        iso_precise(row["quiet_until"]),
    )
