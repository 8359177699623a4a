"""What commands print: tables for people, JSON for programs, and complaints on stderr.

What is shown may come from devices and strangers: nothing in it is taken for markup, and no control character
reaches the terminal.
"""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 400
_encoder = msgspec.json.Encoder()


def show_json(value: object) -> None:
    typer.echo(_encoder.encode(value).decode())


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, when_empty: str) -> None:
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(as_text(value) for value in row))
    if table.row_count == 0:
        typer.echo(when_empty)
    else:
        _console().print(table)


def show_record(fields: Iterable[tuple[str, object]]) -> None:
    """One thing, a field a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, as_text(value))
    _console().print(table)


def complain(message: str) -> None:
    typer.echo(f"restante: {printable(message)}", err=True)


def as_text(value: object) -> Text:
    return Text("" if value is None else printable(str(value)))


def printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def moment(milliseconds: int | None) -> str:
    """A time of the database for human eyes, in UTC; the same text sorts as the times do."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def _console() -> Console:
    # Piped output is for other programs: their lines must not be broken to fit a terminal that is not there.
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
