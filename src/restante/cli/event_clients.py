"""`restante events clients`: who may poll for events. A secret is shown once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from restante.cli.edge import actor, show_next
from restante.cli.opening import opened, settings_of
from restante.cli.options import AfterOption, DataOption, JsonOption, LimitOption
from restante.cli.output import complain, show_json, show_record, show_table
from restante.core.errors import BadInput
from restante.events import clients, routes_admin_clients
from restante.events.clients import Registered, Registration
from restante.events.routes_admin_clients import ClientView
from restante.server.options import access_options
from restante.web.paging import Window, page_of_items

app = typer.Typer(no_args_is_help=True, help="Clients of event polling.")

ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The client's client_id.")]
JwksOption = Annotated[
    Path | None,
    typer.Option("--jwks", metavar="FILE", help="Its public keys as a JWKS, for private_key_jwt; - reads them here."),
]
SubjectOption = Annotated[
    str | None,
    typer.Option("--subject-dn", metavar="DN", help="Its certificate's subject (RFC 4514), for tls_client_auth."),
]


class Way(StrEnum):
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
    name: Annotated[str, typer.Argument(help="What the client is called.")],
    method: Annotated[Way, typer.Option("--method", help="How it proves who it is; a secret: in development only.")],
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="ID", help="Its client_id; made if not given.")
    ] = None,
    jwks: JwksOption = None,
    subject_dn: SubjectOption = None,
    alg: Annotated[
        Alg | None, typer.Option("--alg", help="What its events are signed with; else what the settings say.")
    ] = None,
    scope: Annotated[str, typer.Option("--scope", help="What it may ask for, separated by spaces.")] = clients.SCOPES[
        0
    ],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Register a client. A secret is shown this once."""
    wish = Registration(
        name,
        method.value,
        client_id,
        _keys(jwks),
        subject_dn,
        settings_of(data).event_signing_alg if alg is None else alg.value,
        scope,
    )
    with opened(data) as database:
        made = database.write_now(clients.add, wish, actor())
    _warn(data)
    _show_made(made, json)


@app.command("list")
def list_clients(
    limit: LimitOption = 100, after: AfterOption = 0, data: DataOption = None, json: JsonOption = False
) -> None:
    """List clients in the order they were registered."""
    with opened(data) as database:
        found = database.read_now(clients.list_some, after, limit + 1)
    views = [routes_admin_clients.view(each) for each in found]
    page = page_of_items(views, Window(limit, after), lambda each: each.id)
    if json:
        show_json(page)
        return
    rows = [
        (each.client_id, each.name, each.token_endpoint_auth_method, each.scope, each.status, each.last_poll_at)
        for each in page.items
    ]
    columns = ("client_id", "name", "method", "scope", "status", "last poll")
    show_table(columns, rows, when_empty="No clients.")
    show_next(page.next)


@app.command("show")
def show(client: ClientArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Show a client."""
    with opened(data) as database:
        _show(routes_admin_clients.view(database.read_now(clients.get, client)), json)


@app.command("rotate")
def rotate(
    client: ClientArgument,
    jwks: JwksOption = None,
    subject_dn: SubjectOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Replace a client's secret, keys or subject, whichever it has. Its access tokens end at once."""
    with opened(data) as database:
        made = database.write_now(clients.rotate, client, _keys(jwks), subject_dn, actor())
    _show_made(made, json)


@app.command("suspend")
def suspend(client: ClientArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Refuse a client everywhere, at once; its events are kept."""
    with opened(data) as database:
        _show(routes_admin_clients.view(database.write_now(clients.suspend, client, actor())), json)


@app.command("resume")
def resume(client: ClientArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Let a suspended client in again."""
    with opened(data) as database:
        _show(routes_admin_clients.view(database.write_now(clients.resume, client, actor())), json)


def _keys(path: Path | None) -> Any:
    if path is None:
        return None
    raw = typer.get_binary_stream("stdin").read() if str(path) == "-" else path.read_bytes()
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput("--jwks", f"a JWKS ({error})") from None


def _warn(data: Path | None) -> None:
    """Who has clients must know how they reach the server, if it is started with these settings."""
    for warning in access_options(settings_of(data)).warnings():
        complain(warning)


def _show_made(made: Registered, as_json: bool) -> None:
    if as_json:
        show_json(routes_admin_clients.view_of_registered(made))
    elif made.client_secret is None:
        typer.echo(f"Client {made.client_id}.")
    else:
        typer.echo(f"Client {made.client_id}. Shown this once:")
        show_record([("client_secret", made.client_secret)])


def _show(client: ClientView, as_json: bool) -> None:
    if as_json:
        show_json(client)
    else:
        fields = msgspec.structs.asdict(client)
        shown = [(name, ", ".join(value) if isinstance(value, list) else value) for name, value in fields.items()]
        show_record([(name, value) for name, value in shown if value not in (None, "")])
