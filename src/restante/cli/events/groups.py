"""`restante events`: the groups of its commands, one module each."""

import typer

from restante.cli.events import event_clients, event_keys, event_publishing

app = typer.Typer(no_args_is_help=True, help="Event polling.")
app.add_typer(event_clients.app, name="clients")
app.add_typer(event_keys.app, name="keys")
event_publishing.add_commands(app)
