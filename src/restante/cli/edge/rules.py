"""`restante rule`, `restante telemetry` and `restante safety-event`: what miners report, and what follows from it."""

from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, when
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import MinerArgument, ParamsOption, RuleArgument, SiteOption, given, miner_id
from restante.cli.remote.arguments import rule_id as id_of
from restante.cli.remote.arguments import site_id as site_of
from restante.cli.remote.noun import Call, Filter, Item, Noun, Page
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import is_number, json_object, number, whole_number

RULE = Noun("Rules that send commands when telemetry meets a condition.")
TELEMETRY = Noun("What miners have measured.")
SAFETY_EVENT = Noun("What collectors did by themselves for safety.")
rule_app, telemetry_app, safety_event_app = RULE.app, TELEMETRY.app, SAFETY_EVENT.app

MetricOption = Annotated[
    str | None, typer.Option("--metric", metavar="NAME", help="The measurement to watch, for example temp_max.")
]
OPERATORS = {"above": ">", "at_least": ">=", "below": "<", "at_most": "<=", "equals": "=="}
COMPARISONS = ", ".join("--" + name.replace("_", "-") for name in OPERATORS)
# Of a whole condition: type, metric, operator and value.
CONDITION_FIELDS = 4
CONDITION = f"--metric with one of {COMPARISONS}, or --offline"
AboveOption = Annotated[
    float | None, typer.Option("--above", metavar="N", parser=number, help="Fires above this value.")
]
AtLeastOption = Annotated[
    float | None, typer.Option("--at-least", metavar="N", parser=number, help="Fires at this value and above.")
]
BelowOption = Annotated[
    float | None, typer.Option("--below", metavar="N", parser=number, help="Fires below this value.")
]
AtMostOption = Annotated[
    float | None, typer.Option("--at-most", metavar="N", parser=number, help="Fires at this value and below.")
]
EqualsOption = Annotated[
    float | None, typer.Option("--equals", metavar="N", parser=number, help="Fires at this value.")
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Fires when a miner sends no telemetry, instead of --metric.")
]
ForOption = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="TIME", help="How long the condition must hold: 90s, 5m. At least 10s for --offline."
    ),
]
MinersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--miner", metavar="MINER", help="Only this miner: id or name; repeatable.", autocompletion=completion.MINERS
    ),
]
CooldownOption = Annotated[
    str | None,
    typer.Option(
        "--cooldown", metavar="TIME", help="How long it does not fire again for the same miner. Default: 30m."
    ),
]
PriorityOption = Annotated[
    int | None,
    typer.Option(
        "--priority", metavar="N", parser=whole_number, help="Of the command: 0 is normal, higher is more urgent."
    ),
]
COLUMNS: Columns = {
    "id": "id",
    "site": "site_id",
    "name": "name",
    "enabled": "enabled",
    "when": Column(lambda rule: _condition(rule)),
    "action": "action_type",
    "priority": "priority",
}


def _condition(rule: Item) -> str:
    value = None if rule["trigger_value"] is None else f"{rule['trigger_value']:.15g}"
    parts = (rule["trigger_metric"], rule["trigger_operator"], value)
    text = " ".join(str(each) for each in parts if each is not None) or rule["trigger_type"]
    return f"{text} for {rule['trigger_duration_seconds']} s" if rule["trigger_duration_seconds"] else text


@RULE.lists(
    COLUMNS,
    empty="No rules.",
    filters={
        "site_id": filters.SITE,
        "enabled": Filter(Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only these.")]),
    },
)
def list_rules(call: Call) -> Page:
    """List rules by id."""
    return call.page(call.client.rules.list_page, **call.filters)


@RULE.shows()
def show(call: Call, rule: RuleArgument) -> Item:
    """Show a rule."""
    return dict(call.client.rules.get(id_of(call, rule)))


@RULE.does("create", "Rule {id} is made.")
def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    site_id: Annotated[
        str, typer.Option("--site", metavar="SITE", help="The site: id or name.", autocompletion=completion.SITES)
    ],
    action_type: Annotated[
        str,
        typer.Option(
            "--command",
            metavar="TYPE",
            help="The command to send: MINER_RESTART, or restart.",
            autocompletion=completion.COMMAND_TYPES,
        ),
    ],
    trigger_metric: MetricOption = None,
    above: AboveOption = None,
    at_least: AtLeastOption = None,
    below: BelowOption = None,
    at_most: AtMostOption = None,
    equals: EqualsOption = None,
    offline: OfflineOption = False,
    trigger_duration_seconds: ForOption = None,
    miner_ids: MinersOption = None,
    action_parameters: ParamsOption = None,
    cooldown_seconds: CooldownOption = None,
    priority: PriorityOption = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Do not enable it yet.")] = False,
) -> Any:
    """Make a rule: send a command to a miner when a measurement passes a value, or when the miner is silent.

    For example: restante rule create "too hot" --site mine --metric temp_max --above 90 --for 1m --command restart
    """
    compared = _comparison(above=above, at_least=at_least, below=below, at_most=at_most, equals=equals)
    trigger = _trigger(trigger_metric, compared, is_offline=offline)
    if len(trigger) < CONDITION_FIELDS:
        raise typer.BadParameter(f"give {CONDITION}")
    return call.client.rules.create(
        name=name,
        site_id=site_of(call, site_id),
        action_type=action_type,
        enabled=not disabled,
        **trigger,
        **_options(call, trigger_duration_seconds, miner_ids, action_parameters, cooldown_seconds, priority),
    )


@RULE.does("update", "Rule {id} is changed.")
def update(
    call: Call,
    rule: RuleArgument,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Its new name.")] = None,
    action_type: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="TYPE",
            help="The command to send instead; give its --params, too.",
            autocompletion=completion.COMMAND_TYPES,
        ),
    ] = None,
    trigger_metric: MetricOption = None,
    above: AboveOption = None,
    at_least: AtLeastOption = None,
    below: BelowOption = None,
    at_most: AtMostOption = None,
    equals: EqualsOption = None,
    offline: OfflineOption = False,
    trigger_duration_seconds: ForOption = None,
    miner_ids: MinersOption = None,
    all_miners: Annotated[bool, typer.Option("--all-miners", help="Every miner of the site again.")] = False,
    action_parameters: ParamsOption = None,
    cooldown_seconds: CooldownOption = None,
    priority: PriorityOption = None,
) -> Any:
    """Change a rule: what is not given stays as it is."""
    if all_miners and miner_ids:
        raise typer.BadParameter("give --miner or --all-miners, not both")
    compared = _comparison(above=above, at_least=at_least, below=below, at_most=at_most, equals=equals)
    fields = {
        **given(name=name, action_type=action_type),
        **_trigger(trigger_metric, compared, is_offline=offline),
        **_options(call, trigger_duration_seconds, miner_ids, action_parameters, cooldown_seconds, priority),
        **({"miner_ids": None} if all_miners else {}),
    }
    if not fields:
        raise typer.BadParameter("give at least one option with what to change")
    return call.client.rules.update(id_of(call, rule), **fields)


def _comparison(**values: float | None) -> tuple[str, float] | None:
    """The operator and the value of the one comparison that is given."""
    found = [(OPERATORS[name], value) for name, value in values.items() if value is not None]
    if len(found) > 1:
        raise typer.BadParameter(f"give only one of {COMPARISONS}")
    return found[0] if found else None


def _trigger(metric: str | None, compared: tuple[str, float] | None, *, is_offline: bool) -> Item:
    """The fields of a condition; none if no part of one is given."""
    if is_offline:
        if metric is not None or compared is not None:
            raise typer.BadParameter(f"give {CONDITION}, not both")
        return {"trigger_type": "offline", "trigger_metric": None, "trigger_operator": None, "trigger_value": None}
    operator, value = compared or (None, None)
    fields = given(trigger_metric=metric, trigger_operator=operator, trigger_value=value)
    return {"trigger_type": "threshold", **fields} if fields else {}


def _options(
    call: Call,
    duration: str | None,
    miners: list[str] | None,
    params: str | None,
    cooldown: str | None,
    priority: int | None,
) -> Item:
    return given(
        trigger_duration_seconds=None if duration is None else parse_duration(duration, "--for"),
        miner_ids=[miner_id(call, each) for each in miners or ()] or None,
        action_parameters=None if params is None else json_object(params, "--params"),
        cooldown_seconds=None if cooldown is None else parse_duration(cooldown, "--cooldown"),
        priority=priority,
    )


@RULE.does("enable", "Rule {id} is enabled.")
def enable(call: Call, rule: RuleArgument) -> Any:
    """Enable a rule."""
    return call.client.rules.enable(id_of(call, rule))


@RULE.does("disable", "Rule {id} is disabled.")
def disable(call: Call, rule: RuleArgument) -> Any:
    """Disable a rule: it sends no more commands."""
    return call.client.rules.disable(id_of(call, rule))


@RULE.does("delete", "Rule {id} is deleted.", asks=True)
def delete(call: Call, rule: RuleArgument) -> Any:
    """Delete a rule."""
    found = call.client.rules.get(id_of(call, rule))
    call.confirm(f"This deletes rule {found['id']} ({found['name']}). It cannot be undone.")
    call.client.rules.delete(found["id"])
    return {"id": found["id"], "deleted": True}


@RULE.lists(
    {
        "miner": "miner_id",
        "holds since": when("holds_since"),
        "fired": when("last_fired_at"),
        "outcome": "last_outcome",
        "command": "last_command_id",
        "quiet until": when("quiet_until"),
    },
    empty="The rule has not seen any miner yet.",
    name="why",
)
def why(call: Call, rule: RuleArgument) -> Page:
    """Show for each miner why a rule fired, or did not."""
    return call.page(call.client.rules.states_page, id_of(call, rule))


@TELEMETRY.lists(
    {
        "miner": "miner_id",
        "site": "site_id",
        "measured": when("ts"),
        "received": when("received_at"),
        "values": "record",
    },
    empty="No telemetry.",
    filters={"site_id": filters.SITE, "miner_known": filters.KNOWN},
)
def list_telemetry(call: Call) -> Page:
    """List the latest record of each miner."""
    return call.page(call.client.telemetry.list_page, **call.filters)


@TELEMETRY.shows()
def show_telemetry(
    call: Call,
    miner: MinerArgument,
    site: SiteOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--records", metavar="N", parser=whole_number, help="The most records of the history."),
    ] = None,
) -> Item:
    """Show the latest record of a miner, and its history. A miner that is not registered is named by its id."""
    where = None if site is None else site_of(call, site)
    number = int(miner) if is_number(miner) else miner_id(call, miner)
    return dict(call.client.telemetry.get(number, **given(site_id=where, limit=limit)))


@SAFETY_EVENT.lists(
    {
        "id": "id",
        "site": "site_id",
        "miner": "miner_id",
        "action": "action",
        "reason": "reason",
        "at": when("ts"),
        "received": when("received_at"),
    },
    empty="No safety events.",
    filters=filters.SAFETY_EVENTS,
    counts=lambda call: call.client.safety_events.counts(**call.filters),
)
def list_events(call: Call) -> Page:
    """List safety events, newest first."""
    return call.page(call.client.safety_events.list_page, **call.filters)


SAFETY_EVENT.exports(
    "safety events",
    lambda call, format: call.client.safety_events.export(format=format, **call.filters),
    filters=filters.SAFETY_EVENTS,
)
