"""Automation rules: what an operator wants done when telemetry says something, or nothing any more.

Decides what is a rule, and keeps it. Knows nothing of evaluating it: see `rule_evaluation`. Must always hold: what a
rule would do is a command that could be made now, its type known and its parameters such as can be signed; and every
change gives the site another revision, so that nobody goes on with the rules of before.
"""

import secrets
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands import sites
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.command_types import checked_params, standard_type
from restante.commands.queue import PRIORITY_MAX, SITE_LOCK
from restante.commands.wire import iso, iso_or_none
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.web.ask import INT64_MAX
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)

RULES_MAX = 1000
MINERS_MAX = 1000
DURATION_MAX_SECONDS = 7 * 86_400
COOLDOWN_MAX_SECONDS = 30 * 86_400
COOLDOWN_DEFAULT_SECONDS = 1800
# Collectors report every few seconds at best: less than this is no silence.
OFFLINE_LEAST_SECONDS = 10
NOT_METRICS = ("miner_id", "ts")

Name = Annotated[str, Meta(min_length=1, max_length=sites.NAME_CHARACTERS_MAX)]
Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
MinerIds = Annotated[list[Id], Meta(min_length=1, max_length=MINERS_MAX)]
TriggerType = Literal["threshold", "offline"]
Metric = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.:-]+$")]
Operator = Literal[">", ">=", "<", "<=", "=="]
Duration = Annotated[int, Meta(ge=0, le=DURATION_MAX_SECONDS)]
Cooldown = Annotated[int, Meta(ge=0, le=COOLDOWN_MAX_SECONDS)]
Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX)]


class RuleWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as it is wished for; `miner_ids` None: every miner of the site."""

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


class RuleChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different about a rule; a rule stays at its site."""

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
    created_at: str
    updated_at: str


class RuleState(msgspec.Struct, frozen=True):
    """Where a rule stands with a miner: since when its condition holds, when it last fired and what came of it."""

    miner_id: int
    holds_since: str | None
    last_fired_at: str | None
    last_outcome: str | None
    last_command_id: str | None
    quiet_until: str | None


def create(conn: Connection, trail: AuditTrail, wish: RuleWish, actor: str) -> Rule:
    conn.lock(SITE_LOCK, wish.site_id)
    sites.require_site(conn, wish.site_id)
    values = _checked(conn, wish)
    counted = conn.one(SQL.count_of_site, site_id=wish.site_id)
    if counted is not None and counted["rules"] >= RULES_MAX:
        raise Conflict(f"the site has {RULES_MAX} rules, which is as many as it can have")
    row = conn.one(SQL.insert_rule, **values, site_id=wish.site_id, actor=actor, now_ms=conn.now_ms)
    return _made(conn, trail, row, actor, "rule.created")


def replace(conn: Connection, trail: AuditTrail, rule_id: int, wish: RuleWish, actor: str) -> Rule:
    """The rule as it is wished for now; what it had observed so far is forgotten, when it last fired is not."""
    rule = _locked(conn, rule_id)
    if wish.site_id != rule.site_id:
        raise BadInput("site_id", "the rule's own, a rule stays at its site")
    row = conn.one(SQL.update_rule, **_checked(conn, wish), rule_id=rule_id, now_ms=conn.now_ms)
    conn.run(SQL.restart_states, rule_id=rule_id, cooldown_seconds=wish.cooldown_seconds)
    return _made(conn, trail, row, actor, "rule.changed")


def change(conn: Connection, trail: AuditTrail, rule_id: int, wanted: RuleChange, actor: str) -> Rule:
    given = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not UNSET}
    return replace(conn, trail, rule_id, msgspec.structs.replace(_as_wish(_locked(conn, rule_id)), **given), actor)


def delete(conn: Connection, trail: AuditTrail, rule_id: int, actor: str) -> None:
    rule = _locked(conn, rule_id)
    conn.run(SQL.delete_rule, rule_id=rule_id)
    _tell(conn, trail, rule, actor, "rule.deleted")


def get(conn: Connection, rule_id: int) -> Rule:
    row = conn.one(SQL.rule, rule_id=rule_id)
    if row is None:
        raise NotFound("there is no such rule")
    return _rule(row)


def list_page(conn: Connection, site_id: int | None, enabled: bool | None, window: Window) -> Page[Rule]:
    query = SQL.rules if site_id is None else SQL.rules_of_site
    wanted = None if enabled is None else int(enabled)
    rows = conn.all(query, site_id=site_id, enabled=wanted, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "id", _rule)


def states(conn: Connection, rule_id: int, window: Window) -> Page[RuleState]:
    get(conn, rule_id)
    rows = conn.all(SQL.states, rule_id=rule_id, after=window.after, limit=window.limit + 1)
    return page_of(rows, window, "miner_id", _state)


def put_revision(conn: Connection, site_id: int) -> int:
    """Give the site a revision that it never had: drawn, not counted, so that one that was rolled back cannot recur."""
    revision = secrets.randbits(62)
    conn.run(SQL.put_revision, site_id=site_id, revision=revision)
    return revision


def _locked(conn: Connection, rule_id: int) -> Rule:
    """The rule, as it is until the transaction ends."""
    conn.lock(SITE_LOCK, get(conn, rule_id).site_id)
    return get(conn, rule_id)


def _checked(conn: Connection, wish: RuleWish) -> dict[str, Any]:
    """The wish as columns, if it is a rule."""
    sites.checked_name(wish.name)
    if wish.trigger_type == "offline":
        _check_offline(wish)
    else:
        _check_threshold(wish)
    action_type = standard_type(wish.action_type, "action_type")
    parameters = checked_params(action_type, bytes(wish.action_parameters), "action_parameters")
    return {
        **{name: getattr(wish, name) for name in _STORED_AS_WISHED},
        "enabled": int(wish.enabled),
        "action_type": action_type,
        "action_parameters": msgspec.json.encode(parameters).decode(),
        "miner_ids": None if wish.miner_ids is None else _checked_miners(conn, wish.site_id, wish.miner_ids),
    }


_STORED_AS_WISHED = (
    *("name", "trigger_type", "trigger_metric", "trigger_operator", "trigger_value", "trigger_duration_seconds"),
    *("cooldown_seconds", "priority"),
)


def _check_threshold(wish: RuleWish) -> None:
    for name in ("trigger_metric", "trigger_operator", "trigger_value"):
        if getattr(wish, name) is None:
            raise BadInput(name, "a value, a threshold needs it")
    if wish.trigger_metric in NOT_METRICS:
        raise BadInput("trigger_metric", "the name of a measurement")


def _check_offline(wish: RuleWish) -> None:
    for name in ("trigger_metric", "trigger_operator", "trigger_value"):
        if getattr(wish, name) is not None:
            raise BadInput(name, "nothing, silence has no measurements")
    if wish.trigger_duration_seconds < OFFLINE_LEAST_SECONDS:
        raise BadInput("trigger_duration_seconds", f"at least {OFFLINE_LEAST_SECONDS} seconds of silence")


def _checked_miners(conn: Connection, site_id: int, miner_ids: list[int]) -> str:
    if len(set(miner_ids)) != len(miner_ids):
        raise BadInput("miner_ids", "every miner once")
    text = msgspec.json.encode(miner_ids).decode()
    found = conn.one(SQL.miners_among, site_id=site_id, miner_ids=text)
    if found is None or found["miners"] != len(miner_ids):
        raise BadInput("miner_ids", "ids of miners of the site")
    return text


def _made(conn: Connection, trail: AuditTrail, row: Row | None, actor: str, event: str) -> Rule:
    assert row is not None  # noqa: S101 — the statement returns the row it has just written
    rule = _rule(row)
    _tell(conn, trail, rule, actor, event)
    return rule


def _tell(conn: Connection, trail: AuditTrail, rule: Rule, actor: str, event: str) -> None:
    put_revision(conn, rule.site_id)
    # Parameters may hold a pool's password: the trail is told what the rule does, not with what.
    told = {name: value for name, value in msgspec.structs.asdict(rule).items() if name != "action_parameters"}
    trail.record(conn, AuditEntry(rule.site_id, actor, event, None, None, None, told))


def _as_wish(rule: Rule) -> RuleWish:
    kept = {name: getattr(rule, name) for name in RuleWish.__struct_fields__}
    return RuleWish(**{**kept, "action_parameters": msgspec.Raw(msgspec.json.encode(rule.action_parameters))})


def _rule(row: Row) -> Rule:
    return Rule(
        **{
            **dict(row),
            "miner_ids": None if row["miner_ids"] is None else msgspec.json.decode(row["miner_ids"]),
            "action_parameters": msgspec.json.decode(row["action_parameters"]),
            "enabled": bool(row["enabled"]),
            "created_at": iso(row["created_at"]),
            "updated_at": iso(row["updated_at"]),
        }
    )


def _state(row: Row) -> RuleState:
    return RuleState(
        row["miner_id"],
        iso_or_none(row["holds_since"]),
        iso_or_none(row["last_fired_at"]),
        row["last_outcome"],
        row["last_command_id"],
        iso_or_none(row["quiet_until"]),
    )
