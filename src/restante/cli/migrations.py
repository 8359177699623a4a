"""`restante migrate`: what of the schema is there, what is lacking, and bringing it up to date apart from a start."""

from contextlib import closing

import typer

from restante.cli.opening import settings_of
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import moment, show_json, show_table
from restante.database import migrate
from restante.database.migrate import Migration
from restante.server.data_folder import DataFolder
from restante.server.engines import engine_of
from restante.server.settings import Settings

app = typer.Typer(no_args_is_help=True, help="The database's schema: what is there, what is lacking.")


@app.command("status")
def status(data: DataOption = None, json: JsonOption = False) -> None:
    """List the migrations, applied and lacking."""
    standing = _standing(settings_of(data))
    if json:
        show_json([{"number": step.number, "name": step.name, "applied_at": at} for step, at in standing])
    else:
        show_table(
            ("number", "name", "applied"),
            [(f"{step.number:04}", step.name, moment(at) or "lacking") for step, at in standing],
            when_empty="This version has no migrations.",
        )


@app.command("plan")
def plan(data: DataOption = None, json: JsonOption = False) -> None:
    """Print the SQL that is still to be run, and run none of it."""
    settings = settings_of(data)
    engine = engine_of(settings)
    lacking = [step for step, at in _standing(settings) if at is None]
    if json:
        show_json([{"number": step.number, "name": step.name, "sql": engine.schema(step.source)} for step in lacking])
    elif lacking:
        for step in lacking:
            typer.echo(f"-- {step.number:04}_{step.name}\n{engine.schema(step.source)}")
    else:
        typer.echo("-- Nothing is lacking.")


@app.command("apply")
def apply(data: DataOption = None, json: JsonOption = False) -> None:
    """Bring the database up to date: all of it or, if anything fails, nothing."""
    settings = settings_of(data)
    engine = engine_of(settings)
    if not engine.is_shared:
        # A server must not have the schema changed under it.
        folder = DataFolder(settings.data)
        folder.refuse_if_running()
        folder.create()
    applied = migrate.migrate(engine)
    if json:
        show_json([{"number": step.number, "name": step.name} for step in applied])
    elif applied:
        for step in applied:
            typer.echo(f"Applied {step.number:04}_{step.name}.")
    else:
        typer.echo("Nothing was lacking.")


def _standing(settings: Settings) -> list[tuple[Migration, int | None]]:
    """Every migration of this version, with when it was applied."""
    engine = engine_of(settings)
    applied: dict[int, int] = {}
    # An embedded database that is not there yet is not made by looking at it.
    if engine.is_shared or DataFolder(settings.data).database_path.exists():
        with closing(engine.connect(writable=False)) as conn:
            conn.begin()
            try:
                applied = migrate.applied(conn)
            finally:
                conn.rollback()
    return [(step, applied.get(step.number)) for step in migrate.available()]
