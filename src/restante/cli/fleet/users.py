"""`restante user`: the people who may sign in."""

import sys
from typing import Annotated, Any

import typer

from restante.cli.output import Columns, identity, when
from restante.cli.remote import completion, filters
from restante.cli.remote.arguments import GrantOption, RoleOption, grants_of, shown_grants, user_id
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.core.errors import BadInput
from restante.identity.people import passwords

USER = Noun("People who may sign in.")
app = USER.app

EmailArgument = Annotated[
    str, typer.Argument(metavar="USER", help="The person: e-mail or id.", autocompletion=completion.PEOPLE)
]
PasswordFromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input, without a prompt.")
]
COLUMNS: Columns = {
    "id": "id",
    "e-mail": identity("email"),
    "role": "role",
    "grants": shown_grants,
    "status": "status",
    "created": when("created_at"),
}


@USER.lists(COLUMNS, empty="There is no user yet.")
def list_users(call: Call) -> Page:
    """List people by id."""
    return call.page(call.client.people.list_page)


@USER.shows({**COLUMNS, "suspended": when("suspended_at")})
def show(call: Call, user: EmailArgument) -> Item:
    """Show a person."""
    return dict(call.client.people.get(user_id(call, user)))


@USER.does("create", "Added {email} as {role}, user {id}.")
def create(
    call: Call,
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The e-mail address to sign in with.")],
    role: RoleOption = None,
    grants: GrantOption = None,
    password_stdin: PasswordFromStdin = False,
    invited: Annotated[
        bool, typer.Option("--invited", help="Set no password: `restante user invite` lets the person choose it.")
    ] = False,
) -> Any:
    """Add a person. The password has at least ten characters."""
    given = grants_of(role, grants)
    if invited:
        return call.client.people.create(email=email, grants=given)
    return call.client.people.create(email=email, password=new_password(password_stdin), grants=given)


INVITED = (
    "The person enters this code at /console/invitation of the server. It is shown this once, and valid until "
    "{expires_at}:\n{code}"
)


@USER.does("invite", INVITED)
def invite(call: Call, user: EmailArgument) -> Any:
    """Let a person choose a new password: they enter the code at /console/invitation of the server."""
    return call.client.people.invite(user_id(call, user))


@USER.does("password", "{email} has a new password; every session of theirs is ended.")
def set_password(call: Call, user: EmailArgument, password_stdin: PasswordFromStdin = False) -> Any:
    """Set a new password, and end every session of the person."""
    found = user_id(call, user)
    return call.client.people.set_password(found, password=new_password(password_stdin))


@USER.does("update", "{email} has new grants; the highest role is {role}.")
def update(call: Call, user: EmailArgument, role: RoleOption = None, grants: GrantOption = None) -> Any:
    """Replace the grants of a person. Sessions go on with the new ones."""
    given = grants_of(role, grants)
    return call.client.people.set_grants(user_id(call, user), grants=given)


@USER.does("suspend", "{email} is suspended.")
def suspend(call: Call, user: EmailArgument) -> Any:
    """End every session of a person, and refuse new ones."""
    return call.client.people.suspend(user_id(call, user))


@USER.does("resume", "{email} may sign in again.")
def resume(call: Call, user: EmailArgument) -> Any:
    """End the suspension of a person."""
    return call.client.people.resume(user_id(call, user))


@USER.does("delete", "{email} is removed.", asks=True)
def delete(call: Call, user: EmailArgument) -> Any:
    """Remove a person for good. Their API keys are revoked; devices and certificates stay."""
    person = call.client.people.get(user_id(call, user))
    call.confirm(f"This removes {person['email']} and revokes their API keys. It cannot be undone.")
    call.client.people.remove(person["id"])
    return {"id": person["id"], "email": person["email"], "removed": True}


@USER.lists(
    {
        "id": "id",
        "at": when("at"),
        "who": "actor",
        "what": "event",
        "person": "person_id",
        "key": "key_id",
        "detail": "detail",
    },
    empty="There is no change yet.",
    name="audit",
    has_since=True,
    filters={
        "person_id": filters.USER,
        "key_id": filters.text("--key", "ID", "Only of this API key.", completion.KEYS),
    },
)
def audit(call: Call) -> Page:
    """List the changes of people, API keys, groups and tags, newest first: who did what, and when."""
    return call.page(call.client.people.audit_page, **call.filters, since_field="at")


def new_password(is_from_stdin: bool) -> str:
    if is_from_stdin:
        # The first line, without the line end that `echo` and here-documents add.
        password = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    elif sys.stdin.isatty():
        password = typer.prompt(
            f"Password (at least {passwords.LENGTH_MIN} characters)", hide_input=True, confirmation_prompt="Again"
        )
    else:
        raise BadInput("password", "a terminal for the prompt, or --password-stdin")
    passwords.check_new(password)
    return password
