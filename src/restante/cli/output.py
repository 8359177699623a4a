"""Output of the commands: tables for people, JSON for programs, errors on stderr.

A command passes its result once, together with how to show it to people; the `print_*` functions that take `as_json`
choose between the two. The values may come from devices and strangers, so nothing in them is read as markup, and no
control character reaches the terminal.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from restante.core.iso_time import format_time as format_time
from restante.database.paging import Page

PIPED_WIDTH = 400
_encoder = msgspec.json.Encoder()

# The title of each column, and the attribute or the function that gives its value for an item.
Columns = Mapping[str, str | Callable[[Any], object]]


def print_result(value: object, text: str, as_json: bool) -> None:
    """Print what a command did: the value as JSON, or the text."""
    if as_json:
        print_json(value)
    else:
        typer.echo(text)


def print_items(
    items: Sequence[Any], columns: Columns, as_json: bool, *, when_empty: str, json_value: object = None
) -> None:
    """Print a list: `json_value`, by default the items themselves, as JSON, or a table of the items."""
    if as_json:
        print_json(items if json_value is None else json_value)
    else:
        print_table(list(columns), [_values(item, columns) for item in items], when_empty=when_empty)


def print_page(page: Page[Any], columns: Columns, as_json: bool, *, when_empty: str) -> None:
    """Print a page of a list, and how to get the next page."""
    print_items(page.items, columns, as_json, when_empty=when_empty, json_value=page)
    if page.next is not None and not as_json:
        typer.echo(f"There are more: --after {page.next}")


def print_record(record: object, columns: Columns, as_json: bool) -> None:
    """Print one thing: as JSON, or a line for each column."""
    if as_json:
        print_json(record)
    else:
        print_fields(zip(columns, _values(record, columns), strict=True))


def present_fields(record: object, names: Iterable[str]) -> dict[str, object]:
    """The named attributes that are not None, by title; objects and lists as JSON."""
    values = ((name.replace("_", " "), getattr(record, name)) for name in names)
    return {title: _json_text(value) for title, value in values if value is not None}


def print_json(value: object) -> None:
    typer.echo(_encoder.encode(value).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, when_empty: str) -> None:
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    if table.row_count == 0:
        typer.echo(when_empty)
    else:
        _console().print(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print one field per line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, _cell(value))
    _console().print(table)


def print_error(message: str) -> None:
    typer.echo(f"restante: {printable(message)}", err=True)


def printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def time_of(name: str) -> Callable[[Any], str]:
    """A column: the attribute of that name, a time in milliseconds."""
    return lambda item: format_time(getattr(item, name))


def _values(item: object, columns: Columns) -> list[object]:
    return [attrgetter(value)(item) if isinstance(value, str) else value(item) for value in columns.values()]


def _json_text(value: object) -> object:
    return _encoder.encode(value).decode() if isinstance(value, dict | list | msgspec.Raw) else value


def _cell(value: object) -> Text:
    return Text("" if value is None else printable(str(value)))


def _console() -> Console:
    # Other programs read piped output: do not wrap its lines to the width of a terminal that is not there.
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
