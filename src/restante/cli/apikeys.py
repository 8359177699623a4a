"""`restante apikey`: keys for programs that call the server."""

from typing import Annotated

import typer

from restante.cli.opening import opened
from restante.cli.options import ID_MAX, DataOption, JsonOption, RoleOption
from restante.cli.output import moment, show_json, show_table
from restante.identity import api_keys

app = typer.Typer(no_args_is_help=True, help="Keys for programs.")


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    role: RoleOption,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key. It is shown this once: only its hash is kept."""
    with opened(data) as database:
        key_id, key = database.write_now(api_keys.create, name, role)
    if json:
        show_json({"id": key_id, "key": key})
    else:
        typer.echo(f"API key {key_id}, shown this once:\n{key}")


@app.command("revoke")
def revoke(
    key_id: Annotated[int, typer.Argument(metavar="ID", min=0, max=ID_MAX, help="The key's id.")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """End a key; from now on it is refused."""
    with opened(data) as database:
        database.write_now(api_keys.revoke, key_id)
    if json:
        show_json({"id": key_id, "revoked": True})
    else:
        typer.echo(f"API key {key_id} is revoked.")


@app.command("list")
def list_keys(data: DataOption = None, json: JsonOption = False) -> None:
    """List all keys, without what they are."""
    with opened(data) as database:
        keys = database.read_now(api_keys.list_all)
    if json:
        show_json(
            [
                {
                    "id": key.id,
                    "name": key.name,
                    "role": key.role.name,
                    "created_at": key.created_at,
                    "revoked_at": key.revoked_at,
                }
                for key in keys
            ]
        )
    else:
        rows = [(key.id, key.name, key.role.name, moment(key.created_at), moment(key.revoked_at)) for key in keys]
        show_table(("id", "name", "role", "created", "revoked"), rows, when_empty="There is no API key yet.")
