"""`restante rule`, `restante telemetry` and `restante safety-event`: what miners report, and what follows from it."""

from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, when
from restante.cli.remote import filters
from restante.cli.remote.arguments import MinerArgument, RuleArgument, SiteOption, given, miner_id, site_id
from restante.cli.remote.arguments import rule_id as id_of
from restante.cli.remote.noun import Call, Filter, Item, Noun, Page
from restante.cli.remote.values import is_number, json_object, whole_number

RULE = Noun("Rules that send commands when telemetry meets a condition.")
TELEMETRY = Noun("What miners have measured.")
SAFETY_EVENT = Noun("What collectors did by themselves for safety.")
rule_app, telemetry_app, safety_event_app = RULE.app, TELEMETRY.app, SAFETY_EVENT.app

BodyArgument = Annotated[
    str, typer.Argument(metavar="JSON", help="The fields of the rule as a JSON object, @FILE, or - for standard input.")
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
    parts = (rule["trigger_metric"], rule["trigger_operator"], rule["trigger_value"])
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
def create(call: Call, body: BodyArgument) -> Any:
    """Make a rule: name, site_id, trigger_type, trigger_metric, trigger_operator, trigger_value, action_type, …"""
    return call.client.rules.create(**json_object(body, "JSON"))


@RULE.does("update", "Rule {id} is changed.")
def update(call: Call, rule: RuleArgument, body: BodyArgument) -> Any:
    """Change fields of a rule; what is not given stays as it is."""
    return call.client.rules.update(id_of(call, rule), **json_object(body, "JSON"))


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
    where = None if site is None else site_id(call, site)
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
