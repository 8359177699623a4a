"""Completion of ids and names on the shell's command line, read from the server that the command line names."""

import os
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import typer
from restante_client import BlockingOperatorClient
from restante_client.errors import RestanteError

from restante.cli.remote.people import user_id_of
from restante.cli.remote.target import Target
from restante.core.errors import BadInput, NotFound

COMPLETED_MAX = 100
_SPECIAL = re.compile(r"[^\w@%+=:,./-]")

Reader = Callable[[BlockingOperatorClient, str], Iterable[tuple[str, str]]]


def completed(read: Reader) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Completion with ids and names. Without a server there are none."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        values = ctx.params
        try:
            with Target(values.get("server"), values.get("profile"), values.get("data")).connect() as client:
                matching = (pair for pair in read(client, incomplete) if pair[0].startswith(incomplete))
                return [(_escaped(value), text) for value, text in islice(matching, COMPLETED_MAX)]
        except (RestanteError, OSError, BadInput, NotFound):
            return []

    return complete


class _Escaped(str):
    """A completion for bash, which inserts it as it is: characters that end a word have a backslash.

    Typer compares it with what was typed, which it reads without backslashes.
    """

    plain: str

    def startswith(self, prefix: Any, *args: Any) -> bool:
        return self.plain.startswith(prefix, *args)


def _escaped(value: str) -> str:
    if os.environ.get("_RESTANTE_COMPLETE") != "complete_bash":
        return value
    escaped = _Escaped(_SPECIAL.sub(r"\\\g<0>", value))
    escaped.plain = value
    return escaped


def ids(noun: str, id_field: str, text_field: str) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Completion with the ids of a noun; the shell shows the text beside each."""
    return completed(
        lambda client, _: (
            (str(item[id_field]), str(item.get(text_field) or "")) for item in getattr(client, noun).list()
        )
    )


def ids_or_names(noun: str, name_field: str) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Completion with ids, and with names once letters are typed."""

    def read(client: BlockingOperatorClient, incomplete: str) -> Iterable[tuple[str, str]]:
        items = getattr(client, noun).list()
        if incomplete and not incomplete.isdecimal():
            return ((str(item[name_field]), str(item["id"])) for item in items)
        return ((str(item["id"]), str(item.get(name_field) or "")) for item in items)

    return completed(read)


def ids_of_user(noun: str) -> Callable[[Any, str], list[tuple[str, str]]]:
    """Completion with the ids of a noun of the user whom `--user` names, or who is signed in."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        def read(client: BlockingOperatorClient, _: str) -> Iterable[tuple[str, str]]:
            items = getattr(client, noun).list(user_id_of(client, ctx.params.get("user")))
            return ((str(item["id"]), str(item["name"])) for item in items)

        return completed(read)(ctx, incomplete)

    return complete


def _command_types(_ctx: typer.Context, incomplete: str) -> list[str]:
    from restante.commands.lifecycle.command_types import COMMAND_TYPES

    return [name for name in COMMAND_TYPES if name.startswith(incomplete.upper())]


def _devices(client: BlockingOperatorClient, incomplete: str) -> Iterable[tuple[str, str]]:
    """A fleet can be large: the server finds names that begin with what is typed."""
    if incomplete and not incomplete.isdecimal():
        return ((item["name"], str(item["id"])) for item in client.devices.list(name=incomplete))
    return ((str(item["id"]), item["name"]) for item in client.devices.list())


DEVICES = completed(_devices)
SITES = ids_or_names("sites", "name")
ZONES = ids("zones", "id", "name")
MINERS = ids_or_names("miners", "name")
COLLECTORS = ids_or_names("collectors", "device_name")
RULES = ids_or_names("rules", "name")
GROUPS = ids_or_names("groups", "name")
COMMAND_TYPES = _command_types
AUTHORITIES = ids_of_user("authorities")
ACCOUNTS = ids_of_user("accounts")
COMMANDS = ids("commands", "command_id", "command_type")
JOBS = ids("jobs", "job_id", "action")
ROLLOUTS = ids("rollouts", "rollout_id", "name")
PEOPLE = ids("people", "email", "role")
KEYS = ids("keys", "id", "name")
CLIENTS = ids("clients", "client_id", "name")
EVENTS = ids("events", "jti", "client_id")
STREAMS = ids("streams", "stream_id", "client_id")
EVENT_KEYS = completed(
    lambda client, _: ((str(key["kid"]), str(key["alg"])) for key in client.event_keys.list()["items"])
)
