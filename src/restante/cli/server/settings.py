"""`restante settings`: every setting with its value and origin, or the page that documents them."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.database_flag import database_from_flag
from restante.cli.options import ConfigOption, DataOption, JsonOption
from restante.cli.output import print_json, print_table
from restante.commands.dispatch.rate_limits import RateRules
from restante.server.config.setting_types import Address
from restante.server.config.settings import DECLARATIONS, Declaration
from restante.server.config.settings_sources import ResolvedSettings, resolve

MARKDOWN_OPENING = """# Settings

This page is the reference of all settings, for operators. It is the output of
`restante settings --markdown`.

The value of a setting comes from the first of these sources that has one:

1. the command line (`--poll-burst 50`)
2. the environment (`RESTANTE_POLL_BURST=50`)
3. the settings file (`poll_burst = 50`)
4. the default

The settings file is TOML: the file named by `--config FILE` or `RESTANTE_CONFIG`, or else
`restante.toml` in the data folder, if it exists.

Every user of a machine can see the arguments of its processes. A setting that may contain a password
or is a secret (`database`, `redis_url`, `outbox`, `audit_anchor`, and those that only the environment
may set) can be given as `@FILE`: the value is the content of the file. `restante serve` logs a
warning if a flag contains a password.

The environment variables that the contract of edge commands names are also read without the prefix:
`ENABLE_COMMAND_SIGNATURE`, `REQUIRE_ACK_NONCE`, `COMMAND_LEASE_DURATION_SEC`,
`MAX_COMMAND_RETRIES`, `DEFAULT_RETRY_BACKOFF_SEC`, `REDIS_URL`. If both are set, the one with the
prefix counts.

The server checks all settings before it starts. It refuses to start if a value is invalid or a
setting does not exist, and names the setting and its origin. `restante settings` shows the values in
effect and their origins.

| setting | default | may be | meaning |
|---|---|---|---|
"""
MARKDOWN_ENDING = """
The secrets `master_key` and `master_key_next` can only be set by their environment variables, and are
never shown.

The URLs in `database`, `redis_url` and `outbox` may contain passwords. The server never shows these
passwords, but every user of the machine can see command lines. Put such URLs into the environment
(`outbox`: several, with spaces between them) or into the settings file (`outbox`: a list). For
PostgreSQL you can also leave the password to `PGPASSFILE`. See [Redis](operations.md#redis) and
[outboxes in your own databases](operations.md#outboxes-in-your-own-databases).

An external issuer in the settings file:

```toml
[[issuers]]
issuer = "https://login.example.com"
jwks = "/etc/restante/login.example.com.jwks.json"
audience = "restante"
algorithms = ["ES256"]
```

Rate limits in the settings file, each a number of commands and a window in seconds. Types that are
not named keep their default:

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
    resolved = resolve({"data": data, "database": database_from_flag()}, os.environ, config)
    if json:
        print_json({"items": [_as_json(each, resolved) for each in DECLARATIONS.values()], "next": None})
    else:
        rows = [
            (each.name, each.shown(_value(each, resolved)), resolved.origins[each.name], each.meaning)
            for each in DECLARATIONS.values()
        ]
        print_table(("setting", "value", "from", "meaning"), rows, when_empty="There are no settings.")


def as_markdown() -> str:
    return MARKDOWN_OPENING + "".join(map(_markdown_row, DECLARATIONS.values())) + MARKDOWN_ENDING


def _markdown_row(declaration: Declaration) -> str:
    shown = declaration.shown(declaration.default)
    default = f"`{shown}`" if shown else "–"
    return f"| `{declaration.name}` | {default} | {declaration.type.expected} | {declaration.meaning} |\n"


def _value(declaration: Declaration, resolved: ResolvedSettings) -> Any:
    return getattr(resolved.settings, declaration.name)


def _as_json(declaration: Declaration, resolved: ResolvedSettings) -> dict[str, object]:
    value = _value(declaration, resolved)
    if declaration.has_secret or isinstance(value, Address | Path | RateRules):
        value = declaration.shown(value) or None
    return {
        "name": declaration.name,
        "value": value,
        "origin": resolved.origins[declaration.name],
        "meaning": declaration.meaning,
    }
