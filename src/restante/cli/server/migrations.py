"""`restante migrate`: list the schema migrations, print the missing ones as SQL, or apply them."""

from contextlib import closing
from dataclasses import dataclass

import typer

from restante.cli.database import load_settings
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import Columns, print_items, print_json, print_result
from restante.core.iso_time import iso_precise
from restante.database import migrate
from restante.database.migrate import Migration
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder
from restante.server.engines import engine_of

app = typer.Typer(no_args_is_help=True, help="The migrations of the database schema.")


@dataclass(frozen=True, slots=True)
class _Status:
    migration: Migration
    at: int | None


_COLUMNS: Columns = {
    "number": lambda status: f"{status.migration.number:04}",
    "name": "migration.name",
    "applied": lambda status: iso_precise(status.at) or "lacking",
}


@app.command("status")
def status(data: DataOption = None, json: JsonOption = False) -> None:
    """List the migrations, applied and missing."""
    statuses = _statuses(load_settings(data))
    records = [
        {"number": each.migration.number, "name": each.migration.name, "applied_at": each.at} for each in statuses
    ]
    print_items(statuses, _COLUMNS, json, when_empty="This version has no migrations.", json_value=records)


@app.command("plan")
def plan(data: DataOption = None, json: JsonOption = False) -> None:
    """Print the SQL of the missing migrations, without running it."""
    settings = load_settings(data)
    engine = engine_of(settings)
    missing = [status.migration for status in _statuses(settings) if status.at is None]
    if json:
        print_json(
            [
                {"number": step.number, "name": step.name, "sql": engine.translate_schema(step.source)}
                for step in missing
            ]
        )
    elif missing:
        for step in missing:
            typer.echo(f"-- {step.number:04}_{step.name}\n{engine.translate_schema(step.source)}")
    else:
        typer.echo("-- Nothing is lacking.")


@app.command("apply")
def apply(data: DataOption = None, json: JsonOption = False) -> None:
    """Apply the missing migrations, all or none."""
    settings = load_settings(data)
    engine = engine_of(settings)
    if not engine.is_shared:
        # The schema must not change under a running server.
        folder = DataFolder(settings.data)
        folder.refuse_if_running()
        folder.refuse_without_database()
    applied = migrate.migrate(engine)
    text = "\n".join(f"Applied {step.number:04}_{step.name}." for step in applied) or "Nothing was lacking."
    print_result([{"number": step.number, "name": step.name} for step in applied], text, json)


def _statuses(settings: Settings) -> list[_Status]:
    """Every migration of this version, and when it was applied."""
    engine = engine_of(settings)
    applied: dict[int, int] = {}
    # Connecting to an embedded database that does not exist would create it.
    if engine.is_shared or DataFolder(settings.data).database_path.exists():
        with closing(engine.connect(writable=False)) as conn:
            conn.begin()
            try:
                applied = migrate.applied(conn)
            finally:
                conn.rollback()
    return [_Status(step, applied.get(step.number)) for step in migrate.available()]
