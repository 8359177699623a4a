"""`restante key`: API keys of programs that call the server."""

from typing import Annotated, Any

import typer

from restante.cli.output import Columns, when
from restante.cli.remote import completion
from restante.cli.remote.arguments import GrantOption, RoleOption, given, grants_of, shown_grants, user_id
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.times import parse_duration
from restante.cli.remote.values import whole_number

KEY = Noun("API keys of programs.")
app = KEY.app

KeyArgument = Annotated[
    int, typer.Argument(metavar="KEY", parser=whole_number, help="The key's id.", autocompletion=completion.KEYS)
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


UserOption = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="USER",
        help="A key of this user (id or e-mail), which opens only what is theirs.",
        autocompletion=completion.PEOPLE,
    ),
]


@KEY.lists(COLUMNS, empty="There is no API key yet.")
def list_keys(call: Call, user: UserOption = None) -> Page:
    """List all keys by id, or those of a user; also revoked ones, without their secrets."""
    if user is not None:
        return call.page(call.client.user_keys.list_page, user_id(call, user))
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
    user: UserOption = None,
) -> Any:
    """Create a key. It is shown once: the server keeps only its hash."""
    seconds = None if expires_in_seconds is None else parse_duration(expires_in_seconds, "--expires-in")
    if user is None:
        made = grants_of(role, grants)
        return call.client.keys.create(name=name, grants=made, **given(expires_in_seconds=seconds))
    if grants:
        raise typer.BadParameter("a key of a user has a --role, and no --grant")
    fields = given(role=role, expires_in_seconds=seconds)
    return call.client.user_keys.create(user_id(call, user), name=name, **fields)


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
def revoke(call: Call, key: KeyArgument, user: UserOption = None) -> Any:
    """Revoke a key for good; from now on it is refused."""
    if user is None:
        name = call.client.keys.get(key)["name"]
        call.confirm(f"This revokes API key {key} ({name}): programs with it are refused. It cannot be undone.")
        call.client.keys.revoke(key)
    else:
        call.confirm(f"This revokes API key {key} of {user}: programs with it are refused. It cannot be undone.")
        call.client.user_keys.revoke(user_id(call, user), key)
    return {"id": key, "revoked": True}
