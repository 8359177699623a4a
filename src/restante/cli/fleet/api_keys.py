"""`restante key`: API keys of programs that call the server."""

from typing import Annotated, Any

import typer

from restante.cli.output import Columns, when
from restante.cli.remote.arguments import KEYS, GrantOption, RoleOption, grants_of, shown_grants, whole_number
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import parse_duration

KEY = Noun("API keys of programs.")
app = KEY.app

KeyArgument = Annotated[
    int, typer.Argument(metavar="KEY", parser=whole_number, help="The key's id.", autocompletion=KEYS)
]
COLUMNS: Columns = {
    "id": "id",
    "name": "name",
    "role": "role",
    "grants": shown_grants,
    "user": "user_id",
    "status": "status",
    "created": when("created_at"),
    "expires": when("expires_at"),
}


@KEY.lists(COLUMNS, empty="There is no API key yet.")
def list_keys(call: Call) -> Page:
    """List all keys by id, also revoked ones, without their secrets."""
    return call.page(call.client.keys.list_page)


@KEY.shows({**COLUMNS, "suspended": when("suspended_at"), "revoked": when("revoked_at")})
def show(call: Call, key: KeyArgument) -> Item:
    """Show a key, without its secret."""
    return dict(call.client.keys.get(key))


@KEY.does("create", "API key {id}, shown this once:\n{token}")
def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The purpose of the key.")],
    role: RoleOption = None,
    grants: GrantOption = None,
    expires_in_seconds: Annotated[
        str | None, typer.Option("--expires-in", metavar="TIME", help="How long it is valid: 12h, 30d.")
    ] = None,
) -> Any:
    """Create a key. It is shown once: the server keeps only its hash."""
    given: dict[str, Any] = {"name": name, "grants": grants_of(role, grants)}
    if expires_in_seconds is not None:
        given["expires_in_seconds"] = parse_duration(expires_in_seconds, "--expires-in")
    return call.client.keys.create(**given)


@KEY.does("update", "API key {id} has new grants; the highest role is {role}.")
def update(call: Call, key: KeyArgument, role: RoleOption = None, grants: GrantOption = None) -> Any:
    """Replace the grants of a key; they count at once."""
    return call.client.keys.set_grants(key, grants=grants_of(role, grants))


@KEY.does("suspend", "API key {id} is suspended.")
def suspend(call: Call, key: KeyArgument) -> Any:
    """Suspend a key; from now on it is refused."""
    return call.client.keys.suspend(key)


@KEY.does("resume", "API key {id} is accepted again.")
def resume(call: Call, key: KeyArgument) -> Any:
    """End the suspension of a key."""
    return call.client.keys.resume(key)


@KEY.does("revoke", "API key {id} is revoked.", asks=True)
def revoke(call: Call, key: KeyArgument) -> Any:
    """Revoke a key for good; from now on it is refused."""
    found = call.client.keys.get(key)
    call.confirm(f"This revokes API key {key} ({found['name']}): programs with it are refused. It cannot be undone.")
    call.client.keys.revoke(key)
    return {"id": key, "revoked": True}
