"""`restante copy`: copy a whole embedded database into PostgreSQL."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from restante.cli.options import JsonOption
from restante.cli.output import print_result
from restante.core.errors import BadInput
from restante.database.copy_tables import CopyProgress, copy
from restante.database.errors import DatabaseError
from restante.database.migrate import migrate
from restante.server.config.settings_sources import load
from restante.server.data_folder import DataFolder
from restante.server.engines import database_location, engine_of


def copy_database(
    source: Annotated[Path, typer.Option("--from", metavar="DIR", help="The data folder to copy from.")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The empty database to copy to: postgresql://….")],
    start_over: Annotated[
        bool, typer.Option("--start-over", help="Delete what an unfinished copy has written, and start again.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Copy an embedded database into PostgreSQL, and compare. An interrupted copy is resumed."""
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
            with _ProgressBars() as bars:
                summary = copy(embedded, server, bars.update, start_over=start_over)
        except DatabaseError as error:
            raise DatabaseError(f"{database_location(there)}: {error}") from error
        folder.mark_copied(database_location(there))
    text = (
        f"Copied and compared: {summary.rows} rows in {summary.tables} tables.\n"
        f"The servers need the same master key: {folder.master_key_path}, or RESTANTE_MASTER_KEY."
    )
    print_result({"tables": summary.tables, "rows": summary.rows}, text, json)


class _ProgressBars:
    """One progress bar per table, on stderr. Without a terminal each table is printed once."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_ProgressBars":
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def update(self, progress: CopyProgress) -> None:
        """A bar counts the rows of a table twice, one after the other: as they are copied, then compared."""
        task = self._tasks.get(progress.table)
        if task is None:
            if not progress.total:
                return
            task = self._tasks[progress.table] = self._progress.add_task(progress.table, total=progress.total)
        is_comparing = progress.compared > 0
        done, what = (progress.compared, "compared") if is_comparing else (progress.copied, "copied")
        self._progress.update(task, completed=done, description=f"{progress.table} {what}")
