"""`restante events clients`: the clients that may poll for events. A secret is shown once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.actor import cli_actor
from restante.cli.database import load_settings, open_database
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import print_error, print_fields, print_json, print_page, print_table
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.paging import Page, PageRequest
from restante.events.clients import clients, refusals, routes_admin
from restante.events.clients.clients import ClientFilter, ClientRegistration, RegisteredClient
from restante.events.clients.routes_admin import ClientView
from restante.events.signing import event_keys
from restante.identity.clients.scopes import SCOPES
from restante.identity.master_key import MasterKeyError, MasterKeySource
from restante.identity.signing_keys import unlock
from restante.server.config.options import access_options
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder

app = typer.Typer(no_args_is_help=True, help="Clients of event polling.")

ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The client's client_id.")]
JwksOption = Annotated[
    Path | None,
    typer.Option(
        "--jwks",
        metavar="FILE",
        help="Its public keys as a JWKS, for private_key_jwt and message signatures; - for stdin.",
    ),
]
SubjectOption = Annotated[
    str | None,
    typer.Option("--subject-dn", metavar="DN", help="Its certificate's subject (RFC 4514), for tls_client_auth."),
]

_COLUMNS = {
    "client_id": "client_id",
    "name": "name",
    "method": "token_endpoint_auth_method",
    "scope": "scope",
    "status": "status",
    "last poll": "last_poll_at",
}


class AuthMethod(StrEnum):
    tls_client_auth = "tls_client_auth"
    private_key_jwt = "private_key_jwt"
    client_secret_basic = "client_secret_basic"  # noqa: S105 — a word, not a secret


class Alg(StrEnum):
    ps256 = "PS256"
    es256 = "ES256"
    eddsa = "EdDSA"
    rs256 = "RS256"


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="The name of the client.")],
    method: Annotated[
        AuthMethod, typer.Option("--method", help="How it authenticates. A secret is for development only.")
    ],
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="ID", help="Its client_id. Default: a new one.")
    ] = None,
    jwks: JwksOption = None,
    subject_dn: SubjectOption = None,
    alg: Annotated[
        Alg | None, typer.Option("--alg", help="The algorithm that signs its events. Default: from the settings.")
    ] = None,
    scope: Annotated[str, typer.Option("--scope", help="The scopes it may request, separated by spaces.")] = SCOPES[0],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Register a client. A secret is shown once."""
    registration = ClientRegistration(
        name,
        method.value,
        client_id,
        _read_jwks(jwks),
        subject_dn,
        load_settings(data).event_signing_alg if alg is None else alg.value,
        scope,
    )
    with open_database(data) as database:
        registered = database.write_now(clients.add, registration, cli_actor())
        _make_missing_keys(database, load_settings(data), registration)
    _print_warnings(data)
    _print_registered(registered, json)


@app.command("list")
def list_clients(
    limit: LimitOption = 100, after: AfterOption = 0, data: DataOption = None, json: JsonOption = False
) -> None:
    """List clients in the order they were registered."""
    with open_database(data) as database:
        found = database.read_now(clients.list_page, ClientFilter(), PageRequest(limit, after))
    page = Page([routes_admin.client_view(client) for client in found.items], found.next)
    print_page(page, _COLUMNS, json, when_empty="No clients.")


@app.command("show")
def show(client: ClientArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show a client."""
    with open_database(data) as database:
        _print_client(routes_admin.client_view(database.read_now(clients.get, client)), json)


@app.command("why")
def why(client: ClientArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show why the server refused a client: the last time for each reason."""
    with open_database(data) as database:
        found = database.read_now(refusals.last_refusals, client)
    if json:
        print_json(found)
        return
    rows = [(each.last_at, each.reason, each.count, each.detail, each.address) for each in found]
    print_table(("last", "reason", "times", "detail", "from"), rows, when_empty=f"{client} was never refused.")


@app.command("rotate")
def rotate(
    client: ClientArgument,
    jwks: JwksOption = None,
    subject_dn: SubjectOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Replace the secret, keys or subject of a client. Its access tokens end at once."""
    with open_database(data) as database:
        registered = database.write_now(clients.rotate, client, _read_jwks(jwks), subject_dn, cli_actor())
    _print_registered(registered, json)


@app.command("suspend")
def suspend(client: ClientArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Suspend a client: it is refused everywhere at once, and its events are kept."""
    with open_database(data) as database:
        _print_client(routes_admin.client_view(database.write_now(clients.suspend, client, cli_actor())), json)


@app.command("resume")
def resume(client: ClientArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Resume a suspended client."""
    with open_database(data) as database:
        _print_client(routes_admin.client_view(database.write_now(clients.resume, client, cli_actor())), json)


def _read_jwks(path: Path | None) -> Any:
    if path is None:
        return None
    raw = typer.get_binary_stream("stdin").read() if str(path) == "-" else path.read_bytes()
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("--jwks", f"a JWKS ({error})") from None


def _make_missing_keys(database: Database, settings: Settings, registration: ClientRegistration) -> None:
    """Publish the keys that will sign the client's events. Without the master key, a node makes them later."""
    algorithms = clients.event_algorithms(registration.scope, registration.set_signing_alg)
    missing = database.read_now(event_keys.missing_algorithms, algorithms)
    if not missing:
        return
    try:
        master_key = unlock(database, MasterKeySource(DataFolder(settings.data).master_key_path, settings.master_key))
    except MasterKeyError as error:
        print_error(f"The signing key for {', '.join(missing)} is made when a server starts: {error}")
        return
    for alg in missing:
        database.write_now(event_keys.store_first, event_keys.generate(master_key, alg))


def _print_warnings(data: Path | None) -> None:
    """Warn if clients could not reach, or could not trust, a server started with these settings."""
    for warning in access_options(load_settings(data)).warnings():
        print_error(warning)


def _print_registered(registered: RegisteredClient, as_json: bool) -> None:
    if as_json:
        print_json(routes_admin.registered_view(registered))
    elif registered.client_secret is None:
        typer.echo(f"Client {registered.client_id}.")
    else:
        typer.echo(f"Client {registered.client_id}. Shown this once:")
        print_fields([("client_secret", registered.client_secret)])


def _print_client(client: ClientView, as_json: bool) -> None:
    if as_json:
        print_json(client)
    else:
        fields = msgspec.structs.asdict(client)
        shown = [(name, ", ".join(value) if isinstance(value, list) else value) for name, value in fields.items()]
        print_fields([(name, value) for name, value in shown if value not in (None, "")])
