"""`restante doctor`: check the installation, and say how to fix each problem."""

import asyncio
from collections.abc import Iterator

import typer

from restante.cli.database import load_settings
from restante.cli.options import ConfigOption, DataOption, JsonOption
from restante.cli.output import print_items
from restante.cli.server.checks import Finding, State, check_node
from restante.cli.server.tls_checks import check_tls
from restante.server.config.settings import Settings
from restante.server.config.settings_sources import SettingsError


def doctor(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Check settings, data folder, database, clock, disk, outbox, Redis and TLS files; exit 1 if there is a problem."""
    try:
        settings = load_settings(data, config)
    except SettingsError as error:
        findings = [
            Finding("settings", State.problem, problem, "see `restante settings --markdown`")
            for problem in error.problems
        ]
    else:
        findings = [
            Finding("settings", State.ok, "all valid"),
            *check_node(settings),
            *check_redis(settings),
            *check_tls(settings),
        ]
    columns = {"": "state.value", "what": "subject", "found": "what", "what to do": "remedy"}
    records = [finding._asdict() for finding in findings]
    print_items(findings, columns, json, when_empty="Nothing was checked.", json_value=records)
    if any(finding.state is State.problem for finding in findings):
        raise typer.Exit(1)


def check_redis(settings: Settings) -> Iterator[Finding]:
    """Check that Redis is reachable, has a trusted certificate and accepts us. Yield nothing if none is configured."""
    address = settings.redis_url
    if address is None:
        return
    # Imported here because only installations with Redis need its driver.
    from restante.delivery.redis.redis_connection import RedisCommandError, RedisUnavailable
    from restante.delivery.redis.redis_servers import RedisServers

    try:
        masters = asyncio.run(RedisServers(address).probe())
    except RedisUnavailable as error:
        remedy = "check that it runs, and that address and certificates are right; the server does without it"
        yield Finding("redis", State.problem, f"{address} cannot be reached: {error}", remedy)
    except RedisCommandError as error:
        yield Finding("redis", State.problem, f"{address} refuses: {error}", "check user and password")
    else:
        yield Finding("redis", State.ok, f"{address} answers" + (f", {masters} masters" if masters > 1 else ""))
