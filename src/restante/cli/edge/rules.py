"""`restante rule`, `restante telemetry` and `restante safety-event`: what miners report, and what follows from it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, when
from restante.cli.remote.arguments import RULES, MinerOption, SiteOption, choice, json_object, site_id, whole_number
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import parse_since, rfc3339

RULE = Noun("Rules that send commands when telemetry meets a condition.")
TELEMETRY = Noun("What miners have measured.")
SAFETY_EVENT = Noun("What collectors did by themselves for safety.")
rule_app, telemetry_app, safety_event_app = RULE.app, TELEMETRY.app, SAFETY_EVENT.app

RuleArgument = Annotated[
    int, typer.Argument(metavar="RULE", parser=whole_number, help="The rule's id.", autocompletion=RULES)
]
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


@RULE.lists(COLUMNS, empty="No rules.")
def list_rules(
    call: Call,
    site: SiteOption = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only these.")] = None,
) -> Page:
    """List rules by id."""
    return call.page(call.client.rules.list_page, site_id=site_id(call, site), enabled=enabled)


@RULE.shows()
def show(call: Call, rule: RuleArgument) -> Item:
    """Show a rule."""
    return dict(call.client.rules.get(rule))


@RULE.does("create", "Rule {id} is made.")
def create(call: Call, body: BodyArgument) -> Any:
    """Make a rule: name, site_id, trigger_type, trigger_metric, trigger_operator, trigger_value, action_type, …"""
    return call.client.rules.create(**json_object(body, "JSON"))


@RULE.does("update", "Rule {id} is changed.")
def update(call: Call, rule: RuleArgument, body: BodyArgument) -> Any:
    """Change fields of a rule; what is not given stays as it is."""
    return call.client.rules.update(rule, **json_object(body, "JSON"))


@RULE.does("enable", "Rule {id} is enabled.")
def enable(call: Call, rule: RuleArgument) -> Any:
    """Enable a rule."""
    return call.client.rules.enable(rule)


@RULE.does("disable", "Rule {id} is disabled.")
def disable(call: Call, rule: RuleArgument) -> Any:
    """Disable a rule: it sends no more commands."""
    return call.client.rules.disable(rule)


@RULE.does("delete", "Rule {id} is deleted.", asks=True)
def delete(call: Call, rule: RuleArgument) -> Any:
    """Delete a rule."""
    found = call.client.rules.get(rule)
    call.confirm(f"This deletes rule {rule} ({found['name']}). It cannot be undone.")
    call.client.rules.delete(rule)
    return {"id": rule, "deleted": True}


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
    return call.page(call.client.rules.states_page, rule)


@TELEMETRY.lists(
    {
        "miner": "miner_id",
        "site": "site_id",
        "measured": when("ts"),
        "received": when("received_at"),
        "values": "record",
    },
    empty="No telemetry.",
)
def list_telemetry(call: Call, site: SiteOption = None) -> Page:
    """List the latest record of each miner."""
    return call.page(call.client.telemetry.list_page, site_id=site_id(call, site))


@TELEMETRY.shows()
def show_telemetry(
    call: Call,
    miner: Annotated[int, typer.Argument(metavar="MINER", parser=whole_number, help="The miner's id.")],
    site: SiteOption = None,
) -> Item:
    """Show the latest record of a miner, and its history."""
    return dict(call.client.telemetry.get(miner, site_id=site_id(call, site)))


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
    has_since=True,
)
def list_events(
    call: Call,
    site: SiteOption = None,
    miner_id: MinerOption = None,
    action: Annotated[str | None, typer.Option("--action", metavar="NAME", help="Only of this kind.")] = None,
) -> Page:
    """List safety events, newest first."""
    since = None if call.since is None else rfc3339(call.since)
    call.since = None
    where = site_id(call, site)
    return call.page(call.client.safety_events.list_page, site_id=where, miner_id=miner_id, action=action, since=since)


@SAFETY_EVENT.runs("export")
def export(
    call: Call,
    site: SiteOption = None,
    format: Annotated[str, choice("--format", ("csv", "json"), "The format.")] = "csv",
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only newer ones: 1h, 7d.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The file. Default: stdout.")] = None,
) -> None:
    """Export safety events."""
    from_time = None if since is None else rfc3339(parse_since(since))
    parts = call.client.safety_events.export(site_id=site_id(call, site), format=format, since=from_time)  # type: ignore[arg-type]
    write_parts(parts, out)


def write_parts(parts: Any, out: Path | None) -> None:
    """Write an export as it arrives, to the file or to standard output."""
    if out is None:
        stream = typer.get_binary_stream("stdout")
        for part in parts:
            stream.write(part)
        stream.flush()
        return
    with out.open("wb") as file:
        file.writelines(parts)
    typer.echo(f"Written to {out}.", err=True)
