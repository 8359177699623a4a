"""Arguments and options that several nouns share, and names and prefixes in place of ids."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from restante_client.errors import BadRequest, Forbidden, NotFound

from restante.cli.remote import completion
from restante.cli.remote.noun import Call, Item
from restante.cli.remote.people import user_id_of
from restante.cli.remote.values import choice, is_number, whole_number
from restante.core.errors import BadInput
from restante.core.errors import NotFound as Missing
from restante.identity.grants import EXPECTED_SCOPE, Role, checked_grants, parse_grant

PREFIX_LENGTH_MIN = 4
# How many of the newest items are searched for one whose id begins with a prefix.
SEARCHED_MAX = 5000

SiteArgument = Annotated[
    str, typer.Argument(metavar="SITE", help="The site: id or name.", autocompletion=completion.SITES)
]
SiteOption = Annotated[
    str | None,
    typer.Option("--site", metavar="SITE", help="Only of this site: id or name.", autocompletion=completion.SITES),
]
ZoneOption = Annotated[
    int | None,
    typer.Option("--zone", metavar="ID", parser=whole_number, help="The zone's id.", autocompletion=completion.ZONES),
]
MinerOption = Annotated[
    str | None,
    typer.Option("--miner", metavar="MINER", help="The miner: id or name.", autocompletion=completion.MINERS),
]
MinerArgument = Annotated[
    str, typer.Argument(metavar="MINER", help="The miner: id or name.", autocompletion=completion.MINERS)
]
CollectorArgument = Annotated[
    str, typer.Argument(metavar="COLLECTOR", help="The collector: id or name.", autocompletion=completion.COLLECTORS)
]
RuleArgument = Annotated[
    str, typer.Argument(metavar="RULE", help="The rule: id or name.", autocompletion=completion.RULES)
]
DeviceArgument = Annotated[
    str, typer.Argument(metavar="DEVICE", help="The device: id or name.", autocompletion=completion.DEVICES)
]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", metavar="DEVICE", help="Only of this device.", autocompletion=completion.DEVICES),
]
TagsArgument = Annotated[list[str], typer.Argument(metavar="TAG", help="One or more tags.")]
UserOption = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="USER", help="The user: id or e-mail. Default: you.", autocompletion=completion.PEOPLE
    ),
]
ParamsOption = Annotated[
    str | None,
    typer.Option(
        "--params",
        metavar="JSON",
        help="The parameters of the type: a JSON object, or @FILE, or - for stdin. Every user of the machine sees "
        "a command line: use a file for a password.",
    ),
]
ReasonOption = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="The reason, for the audit trail.")]
RoleOption = Annotated[str | None, choice("--role", Role.__members__, "Its role, for everything.")]
GrantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="ROLE@SCOPE",
        help="A role in a scope, instead of --role; repeatable. Scopes: " + EXPECTED_SCOPE + ".",
        show_default=False,
    ),
]


def given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def tags_of(found: list[Any]) -> Item:
    """The result of tagging: all tags of the thing, after the last change."""
    return {"tags": found[-1]["tags"]}


def grants_of(role: str | None, grant: list[str] | None) -> list[Any]:
    """The grants of the flags: `--role`, or one or more `--grant`."""
    if (role is None) == (not grant):
        raise typer.BadParameter(f"either --role ({', '.join(Role.__members__)}) or --grant is required")
    if role is not None:
        return [{"role": role, "scope": "all"}]
    checked = checked_grants([parse_grant(text, "--grant") for text in grant or ()], "--grant")
    return [{"role": each.role.name, "scope": str(each.scope)} for each in checked.items]


def shown_grants(item: Item) -> str:
    """The grants as a sentence shows them: a role for everything by its name alone."""
    return ", ".join(f"{each['role']}@{each['scope']}".removesuffix("@all") for each in item.get("grants", ()))


# Ids in place of names.


def site_id(call: Call, site: str) -> int:
    return by_id_or_name(site, "site", lambda: call.client.sites.list())


def miner_id(call: Call, miner: str) -> int:
    return by_id_or_name(miner, "miner", lambda: call.client.miners.list(name=miner))


def collector_id(call: Call, collector: str) -> int:
    return by_id_or_name(collector, "collector", lambda: call.client.collectors.list(name=collector), "device_name")


def device_id(call: Call, device: str) -> int:
    return by_id_or_name(device, "device", lambda: call.client.devices.list(name=device))


def authority_id(call: Call, owner: int, ca: str) -> int:
    return by_id_or_name(ca, "authority", lambda: call.client.authorities.list(owner))


def account_id(call: Call, owner: int, account: str) -> int:
    return by_id_or_name(account, "account", lambda: call.client.accounts.list(owner))


def rule_id(call: Call, rule: str) -> int:
    return by_id_or_name(rule, "rule", lambda: call.client.rules.list())


def by_id_or_name(text: str, noun: str, named: Callable[[], Iterable[Any]], name_field: str = "name") -> int:
    """The id that the text is, or that of the one item with this name; `named` lists those that may have it."""
    if is_number(text):
        return int(text)
    found = [item["id"] for item in named() if item[name_field] == text]
    if len(found) > 1:
        raise BadInput(noun.upper(), f"an id, because {len(found)} are named {text!r}: {', '.join(map(str, found))}")
    if not found:
        raise Missing(f"there is no {noun} {text!r}")
    return int(found[0])


def user_id(call: Call, user: str | None) -> int:
    return user_id_of(call.client, user)


def path_of(call: Call, device: str) -> tuple[int, int]:
    """The user and the id of a device: the paths of a device begin with both."""
    number = device_id(call, device)
    try:
        return int(call.client.devices.get(number)["user_id"]), number
    except Forbidden:
        # A person who sees only their own devices.
        return user_id(call, None), number


def command_of(call: Call, command: str) -> str:
    return full_id(command, "command_id", call.client.commands.get, call.client.commands.list())


def job_of(call: Call, job: str) -> str:
    return full_id(job, "job_id", call.client.jobs.get, call.client.jobs.list())


def rollout_of(call: Call, rollout: str) -> str:
    return full_id(rollout, "rollout_id", call.client.rollouts.get, call.client.rollouts.list())


def client_of(call: Call, client: str) -> str:
    return full_id(client, "client_id", call.client.clients.get, call.client.clients.list())


def event_of(call: Call, jti: str) -> str:
    return full_id(jti, "jti", call.client.events.get, call.client.events.list())


def full_id(text: str, field: str, get: Callable[[str], Any], newest: Iterable[Any]) -> str:
    """The id that the text is, or that it alone begins among the newest items."""
    try:
        get(text)
        return text
    except (NotFound, BadRequest):
        if len(text) < PREFIX_LENGTH_MIN:
            raise
        found = [str(item[field]) for item, _ in zip(newest, range(SEARCHED_MAX), strict=False)]
        return one_with_prefix(text, field.removesuffix("_id"), found)


def one_with_prefix(text: str, noun: str, ids: Iterable[str]) -> str:
    """The id that the text is, or that it alone begins."""
    found = [each for each in ids if each.startswith(text)]
    if text in found:
        return text
    if len(found) > 1:
        raise BadInput(text, f"a longer prefix: {len(found)} ids begin with it")
    if not found:
        raise Missing(f"there is no {noun} {text!r}")
    return found[0]
