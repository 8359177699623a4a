"""`restante doctor`: check the installation, and say how to fix each problem."""

import typer

from restante.cli.database import load_settings
from restante.cli.options import ConfigOption, DataOption, JsonOption
from restante.cli.output import print_items
from restante.server.config.settings_sources import SettingsError
from restante.server.monitoring.checks import Finding, State
from restante.server.monitoring.tls_checks import check_all


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
        findings = [Finding("settings", State.ok, "all valid"), *check_all(settings)]
    columns = {"": "state.value", "what": "subject", "found": "what", "what to do": "remedy"}
    records = [finding._asdict() for finding in findings]
    print_items(findings, columns, json, when_empty="Nothing was checked.", json_value=records)
    if any(finding.state is State.problem for finding in findings):
        raise typer.Exit(1)
