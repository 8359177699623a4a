"""`restante doctor`: is everything as it should be, and what to do where it is not."""

import typer

from restante.cli.checks import Finding, State, look
from restante.cli.opening import settings_of
from restante.cli.options import ConfigOption, DataOption, JsonOption
from restante.cli.output import show_json, show_table
from restante.cli.redis_checks import look_at_redis
from restante.cli.tls_checks import look_at_tls
from restante.server.settings_sources import SettingsError


def doctor(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Check settings, data folder, database, clock, disk, outbox, Redis and TLS files; exit 1 if there is a problem."""
    try:
        settings = settings_of(data, config)
    except SettingsError as error:
        findings = [
            Finding("settings", State.problem, problem, "see `restante settings --markdown`")
            for problem in error.problems
        ]
    else:
        findings = [
            Finding("settings", State.ok, "all as they should be"),
            *look(settings),
            *look_at_redis(settings),
            *look_at_tls(settings),
        ]
    _show(findings, as_json=json)
    if any(finding.state is State.problem for finding in findings):
        raise typer.Exit(1)


def _show(findings: list[Finding], *, as_json: bool) -> None:
    if as_json:
        show_json([finding._asdict() for finding in findings])
    else:
        rows = [(each.state.value, each.subject, each.what, each.remedy) for each in findings]
        show_table(("", "what", "found", "what to do"), rows, when_empty="Nothing was checked.")
