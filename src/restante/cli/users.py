"""`restante user`: the people who may sign in. The first is made here: nobody can sign in to make them."""

import sys
from typing import Annotated

import typer

from restante.cli.opening import opened
from restante.cli.options import DataOption, JsonOption, RoleOption
from restante.cli.output import moment, show_json, show_table
from restante.core.errors import BadInput, NotFound
from restante.identity import passwords, users

app = typer.Typer(no_args_is_help=True, help="People who may sign in.")

PasswordFromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input instead of asking.")
]


@app.command("add")
def add(
    email: Annotated[str, typer.Argument(help="What they sign in with.")],
    role: RoleOption,
    password_stdin: PasswordFromStdin = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add a person. The password has at least ten characters."""
    email = users.checked_email(email)
    password_hash = _new_password_hash(password_stdin)
    with opened(data) as database:
        user_id = database.write_now(users.add, email, password_hash, role)
    if json:
        show_json({"id": user_id, "email": email, "role": role.name})
    else:
        typer.echo(f"Added {email} as {role.name}, user {user_id}.")


@app.command("password")
def set_password(
    email: Annotated[str, typer.Argument(help="Whose password.")],
    password_stdin: PasswordFromStdin = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Give a person a new password, and end every session of theirs."""
    email = users.checked_email(email)
    with opened(data) as database:
        user = database.read_now(users.by_email, email)
        if user is None:
            raise NotFound(f"there is no user {email}")
        database.write_now(users.set_password, user.id, _new_password_hash(password_stdin))
    if json:
        show_json({"id": user.id, "email": email})
    else:
        typer.echo(f"{email} has a new password; every session of theirs is ended.")


@app.command("list")
def list_users(data: DataOption = None, json: JsonOption = False) -> None:
    """List everybody who may sign in."""
    with opened(data) as database:
        everybody = database.read_now(users.list_all)
    if json:
        show_json(
            [
                {"id": user.id, "email": user.email, "role": user.role.name, "created_at": user.created_at}
                for user in everybody
            ]
        )
    else:
        rows = [(user.id, user.email, user.role.name, moment(user.created_at)) for user in everybody]
        show_table(("id", "e-mail", "role", "created"), rows, when_empty="There is no user yet.")


def _new_password_hash(password_stdin: bool) -> str:
    password = _from_stdin() if password_stdin else _asked()
    passwords.check_new(password)
    return passwords.hash_password(password)


def _from_stdin() -> str:
    """The first line, without the end that `echo` and here-documents put to it."""
    line = sys.stdin.readline()
    return line.removesuffix("\n").removesuffix("\r")


def _asked() -> str:
    if not sys.stdin.isatty():
        raise BadInput("password", "a terminal to ask on, or --password-stdin")
    password: str = typer.prompt(
        f"Password (at least {passwords.LENGTH_MIN} characters)", hide_input=True, confirmation_prompt="Again"
    )
    return password
