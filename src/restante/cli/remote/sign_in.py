"""`restante login`, `restante logout`, `restante whoami` and `restante profile`."""

import sys
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from restante_client.errors import RestanteError
from restante_client.operator.client import SignInCode

from restante.cli.output import Columns, print_list, print_one, print_result, when
from restante.cli.remote import profiles
from restante.cli.remote.noun import Call, Item, Noun, remote_command
from restante.cli.remote.people import who_am_i
from restante.cli.remote.profiles import Profile
from restante.cli.remote.refusals import translated
from restante.cli.remote.target import LocalClient, client_of
from restante.core.errors import BadInput

PROFILE = Noun("The servers that you signed in to.")
profile_app = PROFILE.app

KEY_PREFIX = "rk_"
NameOption = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="The name of the profile. Default: the host.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server: https://restante.example.com")],
    api_key_file: Annotated[
        Path | None,
        typer.Option("--api-key-file", metavar="FILE", help="Use the API key in this file; - for standard input."),
    ] = None,
    with_api_key: Annotated[bool, typer.Option("--with-api-key", help="Prompt for an API key.")] = False,
    profile: NameOption = None,
    json: JsonOption = False,
) -> None:
    """Sign in to a server: in a browser as a person, or with an API key. Later commands use it."""
    url = url.rstrip("/")
    is_key = api_key_file is not None or with_api_key
    made = Profile(url=url, token=_api_key(api_key_file)) if is_key else _sign_in(url)
    with client_of(url, made.token, "URL") as client, translated({}):
        caller = who_am_i(client)
    if not caller:
        raise RestanteError(f"{url} does not accept this credential")
    name = profile or urlsplit(url).netloc
    stored = profiles.load()
    stored.profiles[name] = made
    stored.current = name
    profiles.save(stored)
    text = f"Signed in to {url} as {caller['name']} ({caller['role']}), profile {name}."
    print_result({"profile": name, "url": url, **caller}, text, json)


def _sign_in(url: str) -> Profile:
    with client_of(url, None, "URL") as client, translated({}):
        signed_in = client.sign_in(_show)
    return Profile(url=url, token=signed_in["access_token"], expires_at=int(time.time()) + int(signed_in["expires_in"]))


def _show(code: SignInCode) -> None:
    typer.echo(
        f"Open {code['verification_uri_complete']}\nsign in, compare the code {code['user_code']}, and approve.",
        err=True,
    )


def _api_key(file: Path | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise BadInput("--with-api-key", "a terminal for the prompt; use --api-key-file")
        key: str = typer.prompt("API key", hide_input=True)
    else:
        key = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text("utf-8")
    key = key.strip()
    if not key.startswith(KEY_PREFIX) or not key.isascii() or not key.isprintable():
        raise BadInput("--api-key-file", f"an API key, which begins with {KEY_PREFIX}")
    return key


def logout(profile: NameOption = None, json: JsonOption = False) -> None:
    """Sign out of a server: end the session of a profile, by default the current one, and forget its credential."""
    stored = profiles.load()
    name = profile or stored.current
    if name is None:
        raise BadInput("--profile", "a profile, because you are not signed in")
    found = profiles.find(name)
    if not found.token.startswith(KEY_PREFIX):
        with client_of(found.url, found.token) as client, translated({}):
            client.sign_out()
    del stored.profiles[name]
    if stored.current == name:
        stored.current = None
    profiles.save(stored)
    print_result({"profile": name, "signed_out": True}, f"Signed out of {found.url}.", json)


def _whoami(call: Call) -> Item:
    """Show the server that commands use, and as whom."""
    client = call.client
    server = str(client.data.socket_path) if isinstance(client, LocalClient) else client.client.url
    return {"server": server, **who_am_i(call.client)}


whoami = remote_command(_whoami, lambda call, item: print_one(item, None, as_json=call.is_json, is_utc=True), {})


@profile_app.command("list")
def list_profiles(json: JsonOption = False) -> None:
    """List the profiles; the current one is marked."""
    stored = profiles.load()
    items = [
        {"name": name, "url": each.url, "current": name == stored.current, "expires_at": each.expires_at}
        for name, each in sorted(stored.profiles.items())
    ]
    columns: Columns = {"name": "name", "url": "url", "current": "current", "expires": when("expires_at")}
    empty = "You are not signed in. `restante login URL` signs you in."
    print_list({"items": items}, columns, as_json=json, is_utc=False, when_empty=empty)


@profile_app.command("use")
def use(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The profile.")],
    json: JsonOption = False,
) -> None:
    """Use a profile from now on."""
    stored = profiles.load()
    profiles.find(name)
    stored.current = name
    profiles.save(stored)
    print_result({"profile": name}, f"Commands use {stored.profiles[name].url} now.", json)
