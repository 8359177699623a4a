"""Arguments and options that several nouns share, their completion, and names and prefixes in place of ids."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from restante_client import BlockingOperatorClient
from restante_client.errors import NotFound, RestanteError

from restante.cli.remote.noun import Call, Item
from restante.cli.remote.target import Target
from restante.core.errors import BadInput
from restante.core.errors import NotFound as Missing
from restante.identity.grants import EXPECTED_SCOPE, Role, checked_grants, parse_grant

ID_MAX = 2**63 - 1  # the largest integer of the database
COMPLETED_MAX = 100
PREFIX_LENGTH_MIN = 4
# How many of the newest items are searched for one whose id begins with a prefix.
SEARCHED_MAX = 5000
_DIGITS_MAX = 19

Reader = Callable[[BlockingOperatorClient], Iterable[tuple[str, str]]]


def whole_number(text: str | int) -> int:
    """Read a number; Typer's own type would print its bounds in every help text. A default is a number already."""
    text = str(text)
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX or int(text) > ID_MAX:
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(text)


def one_of(*names: str) -> Callable[[str], str]:
    """A parser for a choice by name, in any case."""
    by_key = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        if text.lower() not in by_key:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}")
        return by_key[text.lower()]

    return parse


def choice(flag: str, names: Iterable[str], text: str) -> Any:
    """An option with few values, which the help and the completion show."""
    listed = list(names)
    return typer.Option(
        flag,
        parser=one_of(*listed),
        metavar="|".join(listed),
        help=text,
        show_default=False,
        autocompletion=lambda incomplete: [each for each in listed if each.lower().startswith(incomplete.lower())],
    )


def completed(read: Reader) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Completion with ids and names of the server that the command line names. Without a server there are none."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        values = ctx.params
        try:
            with Target(values.get("server"), values.get("profile"), values.get("data")).connect() as client:
                found = [pair for pair, _ in zip(read(client), range(COMPLETED_MAX), strict=False)]
        except (RestanteError, OSError, BadInput):
            return []
        return [pair for pair in found if pair[0].startswith(incomplete)]

    return complete


def ids_and_names(items: Iterable[Any], id_field: str, name_field: str) -> Iterable[tuple[str, str]]:
    return ((str(item[id_field]), str(item.get(name_field) or "")) for item in items)


# Completion of the ids of each noun.
SITES = completed(lambda client: ids_and_names(client.sites.list(), "id", "name"))
DEVICES = completed(lambda client: ids_and_names(client.devices.list(), "id", "name"))
MINERS = completed(lambda client: ids_and_names(client.miners.list(), "id", "name"))
COLLECTORS = completed(lambda client: ids_and_names(client.collectors.list(), "id", "device_name"))
COMMANDS = completed(lambda client: ids_and_names(client.commands.list(), "command_id", "command_type"))
RULES = completed(lambda client: ids_and_names(client.rules.list(), "id", "name"))
PEOPLE = completed(lambda client: ids_and_names(client.people.list(), "email", "role"))
KEYS = completed(lambda client: ids_and_names(client.keys.list(), "id", "name"))
CLIENTS = completed(lambda client: ids_and_names(client.clients.list(), "client_id", "name"))

SiteArgument = Annotated[str, typer.Argument(metavar="SITE", help="The site: id or name.", autocompletion=SITES)]
SiteOption = Annotated[
    str | None, typer.Option("--site", metavar="SITE", help="Only of this site: id or name.", autocompletion=SITES)
]
ZoneOption = Annotated[int | None, typer.Option("--zone", metavar="ID", parser=whole_number, help="The zone's id.")]
MinerOption = Annotated[
    int | None,
    typer.Option("--miner", metavar="ID", parser=whole_number, help="The miner's id.", autocompletion=MINERS),
]
DeviceArgument = Annotated[
    int, typer.Argument(metavar="DEVICE", parser=whole_number, help="The device's id.", autocompletion=DEVICES)
]
UserOption = Annotated[
    str | None,
    typer.Option("--user", metavar="USER", help="The user: id or e-mail. Default: you.", autocompletion=PEOPLE),
]
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


def site_id(call: Call, site: str | None) -> int | None:
    """The id of a site that is named by id or by name."""
    if site is None:
        return None
    return by_id_or_name(site, "SITE", call.client.sites.list(), "name")


def by_id_or_name(text: str, field: str, items: Iterable[Any], name_field: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX:
        return int(text)
    found = [item["id"] for item in items if item[name_field] == text]
    if len(found) > 1:
        raise BadInput(field, f"an id, because {len(found)} are named {text!r}: {', '.join(map(str, found))}")
    if not found:
        raise Missing(f"there is no {field.lower()} {text!r}")
    return int(found[0])


def user_id(call: Call, user: str | None) -> int:
    """The id of a person who is named by id or e-mail; without one, of the person who is signed in."""
    if user is None:
        own = who_am_i(call).get("user_id")
        if own is None:
            raise BadInput("--user", "a user's id or e-mail, because you are not signed in as a person")
        return int(own)
    if user.isascii() and user.isdecimal():
        return int(user)
    found = [item["id"] for item in call.client.people.list() if item["email"] == user.strip().lower()]
    if not found:
        raise Missing(f"there is no user {user}")
    return int(found[0])


def who_am_i(call: Call) -> Item:
    """The caller as the server sees it: kind, name, role and user id."""
    status: Item = call.client.request("GET", "/auth/status")["data"]
    caller: Item = status.get("caller") or {}
    return caller


def owner_of(call: Call, device_id: int) -> int:
    """The user of a device: the paths of a device begin with it."""
    own = who_am_i(call)
    if own.get("kind") == "person" and own.get("role") != "admin":
        return int(own["user_id"])
    return int(call.client.devices.get(device_id)["user_id"])


def full_id(text: str, field: str, get: Callable[[str], Any], newest: Iterable[Any]) -> str:
    """The id that the text is, or that it alone begins."""
    try:
        get(text)
    except NotFound:
        if len(text) < PREFIX_LENGTH_MIN:
            raise
        found = [
            str(item[field])
            for item, _ in zip(newest, range(SEARCHED_MAX), strict=False)
            if str(item[field]).startswith(text)
        ]
        if len(found) > 1:
            raise BadInput(text, f"a longer prefix: {len(found)} ids begin with it") from None
        if not found:
            raise
        return found[0]
    return text


def json_object(text: str, field: str) -> dict[str, Any]:
    """A JSON object: the text itself, `@FILE`, or `-` for standard input."""
    if text == "-":
        text = typer.get_text_stream("stdin").read()
    elif text.startswith("@"):
        text = Path(text[1:]).read_text("utf-8")
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise BadInput(field, "a JSON object, @FILE, or - for standard input") from None
