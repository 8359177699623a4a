"""`restante apikey`: keys for programs that call the server."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.actor import cli_actor
from restante.cli.database import open_database
from restante.cli.options import ID_MAX, DataOption, GrantOption, JsonOption, RoleOption, grants_of, shown_grants
from restante.cli.output import Columns, print_items, print_result, time_of
from restante.identity import administration, api_keys
from restante.identity.administration import Administrator
from restante.identity.api_keys import ApiKey

app = typer.Typer(no_args_is_help=True, help="Keys for programs.")

KeyArgument = Annotated[int, typer.Argument(metavar="ID", min=0, max=ID_MAX, help="The key's id.")]
_COLUMNS: Columns = {
    "id": "id",
    "name": "name",
    "role": "role.name",
    "grants": lambda key: ", ".join(key.grants.as_texts()),
    "user": "user_id",
    "created": time_of("created_at"),
    "expires": time_of("expires_at"),
    "suspended": time_of("suspended_at"),
    "revoked": time_of("revoked_at"),
}


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The purpose of the key.")],
    role: RoleOption = None,
    grant: GrantOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Create a key. It is shown once: the server keeps only its hash."""
    with open_database(data) as database:
        key_id, key = database.write_now(api_keys.create, name, grants_of(role, grant), None, None, cli_actor())
    print_result({"id": key_id, "key": key}, f"API key {key_id}, shown this once:\n{key}", json)


@app.command("revoke")
def revoke(
    key_id: KeyArgument,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Revoke a key; from now on it is refused."""
    with open_database(data) as database:
        database.write_now(api_keys.revoke, key_id, cli_actor())
    print_result({"id": key_id, "revoked": True}, f"API key {key_id} is revoked.", json)


@app.command("list")
def list_keys(data: DataOption = None, json: JsonOption = False) -> None:
    """List all keys, without their secrets."""
    with open_database(data) as database:
        keys = database.read_now(api_keys.list_all)
    records = [_record(key) for key in keys]
    print_items(keys, _COLUMNS, json, when_empty="There is no API key yet.", json_value=records)


@app.command("grants")
def set_grants(
    key_id: KeyArgument,
    role: RoleOption = None,
    grant: GrantOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Replace the grants of a key; they count at once."""
    grants = grants_of(role, grant)
    _change(key_id, data, json, f"has the grants {shown_grants(grants)}", administration.set_key_grants, grants)


@app.command("suspend")
def suspend(key_id: KeyArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Suspend a key; from now on it is refused."""
    _change(key_id, data, json, "is suspended", administration.suspend_key)


@app.command("resume")
def resume(key_id: KeyArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """End the suspension of a key."""
    _change(key_id, data, json, "is accepted again", administration.resume_key)


def _change(
    key_id: int, data: Path | None, json: bool, what: str, change: Callable[..., ApiKey], *arguments: object
) -> None:
    by = Administrator.of_everything(cli_actor())
    with open_database(data) as database:
        key = database.write_now(change, by, key_id, *arguments)
    print_result(_record(key), f"API key {key.id} {what}.", json)


def _record(key: ApiKey) -> dict[str, object]:
    fields = {field.name: getattr(key, field.name) for field in dataclasses.fields(key)}
    return {**fields, "role": key.role.name, "grants": key.grants.as_texts()}
