"""`restante copy`: an embedded database, all of it, into PostgreSQL."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from restante.cli.options import JsonOption
from restante.cli.output import show_json
from restante.core.errors import BadInput
from restante.database.copying import Standing, copy
from restante.database.errors import DatabaseError
from restante.database.migrate import migrate
from restante.server.data_folder import DataFolder
from restante.server.engines import engine_of, place_of
from restante.server.settings_sources import load


def copy_database(
    source: Annotated[Path, typer.Option("--from", metavar="DIR", help="The data folder to copy from.")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The empty database to copy to: postgresql://….")],
    start_over: Annotated[
        bool, typer.Option("--start-over", help="Forget what an unfinished copy has brought there, and begin anew.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Copy an embedded database into PostgreSQL, and compare. Goes on where it stood if it was interrupted."""
    folder = DataFolder(source)
    if not folder.database_path.exists():
        raise BadInput("--from", f"a data folder with a database in it; {folder.path} has none")
    here = load({"data": source}, os.environ)
    there = load({"data": source, "database": target}, os.environ)
    with folder.lock():
        embedded, server = engine_of(here), engine_of(there)
        migrate(embedded)
        try:
            migrate(server)
            with _Bar() as bar:
                summary = copy(embedded, server, bar.tell, start_over=start_over)
        except DatabaseError as error:
            raise DatabaseError(f"{place_of(there)}: {error}") from error
    if json:
        show_json({"tables": summary.tables, "rows": summary.rows})
    else:
        typer.echo(f"Copied and compared: {summary.rows} rows in {summary.tables} tables.")
        typer.echo(f"The servers need the same master key: {folder.master_key_path}, or RESTANTE_MASTER_KEY.")


class _Bar:
    """A line a table on stderr, that moves on a terminal; elsewhere each table is named once."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_Bar":
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def tell(self, standing: Standing) -> None:
        """Copying is the first half of a table's way, comparing the second."""
        task = self._tasks.get(standing.table)
        if task is None:
            if not standing.total:
                return
            task = self._tasks[standing.table] = self._progress.add_task(standing.table, total=2 * standing.total)
        self._progress.update(task, completed=standing.copied + standing.compared)
