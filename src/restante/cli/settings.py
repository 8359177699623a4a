"""`restante settings`: every setting, its value and where that comes from; also their documentation."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.database_flag import given_database
from restante.cli.options import ConfigOption, DataOption, JsonOption
from restante.cli.output import show_json, show_table
from restante.commands.rate_windows import RateRules
from restante.server.setting_kinds import Address
from restante.server.settings import DECLARED, Declaration
from restante.server.settings_sources import Resolved, resolve

MARKDOWN_OPENING = """# Settings

A setting's value comes from the first of these that has one: the command line (`--poll-burst 50`), the
environment (`RESTANTE_POLL_BURST=50`), the settings file (`poll_burst = 50`), its default. The settings file
is TOML: the one named by `--config FILE` or `RESTANTE_CONFIG`, or `restante.toml` in the data folder if it is
there.

The environment variables that the edge commands contract names are understood without the prefix as well:
`ENABLE_COMMAND_SIGNATURE`, `REQUIRE_ACK_NONCE`, `COMMAND_LEASE_DURATION_SEC`, `MAX_COMMAND_RETRIES`,
`DEFAULT_RETRY_BACKOFF_SEC`, `REDIS_URL`. Where both are set, the one with the prefix counts.

All settings are checked before the server starts; one that is wrong, or that does not exist, is named with
its origin, and nothing is started. `restante settings` shows what is in force and where each value is from.

This page is the output of `restante settings --markdown`.

| setting | default | may be | meaning |
|---|---|---|---|
"""
MARKDOWN_ENDING = """
A secret (`master_key`) is given by its environment variable only, and never shown. Of the address in `database` the
password is never shown, but everybody on the machine can see a command line: give an address with a password as
`RESTANTE_DATABASE`, or leave the password to PostgreSQL's own `PGPASSFILE`.

The URLs of `redis_url` and `outbox` bear passwords: better in the environment (several with space between) or in the
settings file (a list) than on a command line, which everybody on the machine sees. They are shown by name only, never
with password. What they mean: [Redis](operations.md#redis),
[outboxes in your own databases](operations.md#outboxes-in-your-own-databases).

An outside issuer in the settings file:

```toml
[[issuers]]
issuer = "https://login.example.com"
jwks = "/etc/restante/login.example.com.jwks.json"
audience = "restante"
algorithms = ["ES256"]
```

Rate limits in the settings file, each a number of commands and a window in seconds; types that are not named keep
theirs:

```toml
[command_rate_limits]
MINER_RESTART = [5, 300]
default = [20, 60]
```
"""


def settings(
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the settings' documentation instead.")] = False,
) -> None:
    """Show every setting, its value and where the value comes from."""
    if markdown:
        typer.echo(as_markdown(), nl=False)
        return
    resolved = resolve({"data": data, "database": given_database()}, os.environ, config)
    if json:
        show_json([_as_json(each, resolved) for each in DECLARED.values()])
    else:
        rows = [
            (each.name, each.shown(_value(each, resolved)), resolved.origins[each.name], each.meaning)
            for each in DECLARED.values()
        ]
        show_table(("setting", "value", "from", "meaning"), rows, when_empty="There are no settings.")


def as_markdown() -> str:
    return MARKDOWN_OPENING + "".join(map(_markdown_row, DECLARED.values())) + MARKDOWN_ENDING


def _markdown_row(declaration: Declaration) -> str:
    shown = declaration.shown(declaration.default)
    default = f"`{shown}`" if shown else "–"
    return f"| `{declaration.name}` | {default} | {declaration.kind.expected} | {declaration.meaning} |\n"


def _value(declaration: Declaration, resolved: Resolved) -> Any:
    return getattr(resolved.settings, declaration.name)


def _as_json(declaration: Declaration, resolved: Resolved) -> dict[str, object]:
    value = _value(declaration, resolved)
    if declaration.bears_secret or isinstance(value, Address | Path | RateRules):
        value = declaration.shown(value) or None
    return {
        "name": declaration.name,
        "value": value,
        "origin": resolved.origins[declaration.name],
        "meaning": declaration.meaning,
    }
