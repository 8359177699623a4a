"""`restante user`: the people who may sign in.

The first user can only be added here: every other way needs a user who is signed in.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.actor import cli_actor
from restante.cli.database import open_database
from restante.cli.options import (
    AfterOption,
    DataOption,
    GrantOption,
    JsonOption,
    LimitOption,
    RoleOption,
    grants_of,
    shown_grants,
)
from restante.cli.output import Columns, print_items, print_page, print_result, time_of
from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.identity import access_audit, administration
from restante.identity.administration import Administrator
from restante.identity.people import passwords, users
from restante.identity.people.users import User

app = typer.Typer(no_args_is_help=True, help="People who may sign in.")

EmailArgument = Annotated[str, typer.Argument(help="The e-mail address of the user.")]
_AUDIT_COLUMNS: Columns = {
    "id": "id",
    "at": "at",
    "who": "actor",
    "what": "event",
    "person": "person_id",
    "key": "key_id",
    "detail": lambda change: bytes(change.detail).decode(),
}
PasswordFromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of asking.")
]


@app.command("add")
def add(
    email: Annotated[str, typer.Argument(help="The e-mail address to sign in with.")],
    role: RoleOption = None,
    grant: GrantOption = None,
    password_stdin: PasswordFromStdin = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a user. The password has at least ten characters."""
    email, grants = users.checked_email(email), grants_of(role, grant)
    password_hash = _new_password_hash(password_stdin)
    with open_database(data) as database:
        user_id = database.write_now(users.add, email, password_hash, grants, cli_actor())
    record = {"id": user_id, "email": email, "role": grants.role.name, "grants": grants.as_texts()}
    print_result(record, f"Added {email} as {shown_grants(grants)}, user {user_id}.", json)


@app.command("password")
def set_password(
    email: Annotated[str, typer.Argument(help="The e-mail address of the user.")],
    password_stdin: PasswordFromStdin = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Set a new password, and end every session of the user."""
    email = users.checked_email(email)
    with open_database(data) as database:
        user = _find(database, email)
        database.write_now(users.set_password, user.id, _new_password_hash(password_stdin), cli_actor())
    print_result(
        {"id": user.id, "email": email}, f"{email} has a new password; every session of theirs is ended.", json
    )


@app.command("list")
def list_users(data: DataOption = None, json: JsonOption = False) -> None:
    """List all users."""
    with open_database(data) as database:
        found = database.read_now(users.list_all)
    columns: Columns = {
        "id": "id",
        "e-mail": "email",
        "role": "role.name",
        "grants": lambda user: ", ".join(user.grants.as_texts()),
        "created": time_of("created_at"),
        "suspended": time_of("suspended_at"),
    }
    print_items(found, columns, json, when_empty="There is no user yet.", json_value=[_record(user) for user in found])


@app.command("grants")
def set_grants(
    email: EmailArgument,
    role: RoleOption = None,
    grant: GrantOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Replace the grants of a user. Sessions go on with the new ones."""
    grants = grants_of(role, grant)
    _change(email, data, json, f"has the grants {shown_grants(grants)}", administration.set_person_grants, grants)


@app.command("suspend")
def suspend(email: EmailArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """End every session of a user, and refuse new ones."""
    _change(email, data, json, "is suspended", administration.suspend_person)


@app.command("resume")
def resume(email: EmailArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """End the suspension of a user."""
    _change(email, data, json, "may sign in again", administration.resume_person)


@app.command("remove")
def remove(email: EmailArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Remove a user for good; the user's API keys are revoked, devices and certificates stay."""
    by = Administrator.of_everything(cli_actor())
    with open_database(data) as database:
        user = _find(database, email)
        database.write_now(administration.remove_person, by, user.id)
    print_result({"id": user.id, "removed": True}, f"{user.email} is removed.", json)


@app.command("audit")
def audit(limit: LimitOption = 100, after: AfterOption = 0, data: DataOption = None, json: JsonOption = False) -> None:
    """List the changes of people and API keys, newest first: who did what, and when."""
    with open_database(data) as database:
        page = database.read_now(access_audit.list_page, None, None, PageRequest(limit, after))
    print_page(page, _AUDIT_COLUMNS, json, when_empty="There is no change yet.")


def _change(
    email: str, data: Path | None, json: bool, what: str, change: Callable[..., User], *arguments: object
) -> None:
    by = Administrator.of_everything(cli_actor())
    with open_database(data) as database:
        user = database.write_now(change, by, _find(database, email).id, *arguments)
    print_result(_record(user), f"{user.email} {what}.", json)


def _find(database: Database, email: str) -> User:
    user = database.read_now(users.find_by_email, users.checked_email(email))
    if user is None:
        raise NotFound(f"there is no user {email}")
    return user


def _record(user: User) -> dict[str, object]:
    """Field by field: a user also has a password hash."""
    return {
        "id": user.id,
        "email": user.email,
        "role": user.role.name,
        "grants": user.grants.as_texts(),
        "created_at": user.created_at,
        "suspended_at": user.suspended_at,
    }


def _new_password_hash(password_stdin: bool) -> str:
    password = _from_stdin() if password_stdin else _from_prompt()
    passwords.check_new(password)
    return passwords.hash_password(password)


def _from_stdin() -> str:
    """The first line, without the line end that `echo` and here-documents add."""
    line = sys.stdin.readline()
    return line.removesuffix("\n").removesuffix("\r")


def _from_prompt() -> str:
    if not sys.stdin.isatty():
        raise BadInput("password", "a terminal to ask on, or --password-stdin")
    password: str = typer.prompt(
        f"Password (at least {passwords.LENGTH_MIN} characters)", hide_input=True, confirmation_prompt="Again"
    )
    return password
