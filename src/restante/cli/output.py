"""Output of the commands: tables for people, TSV for pipes, JSON for programs, errors on stderr.

A list in JSON is `{"items", "next"}`; one thing is an object. Times in JSON and TSV are RFC 3339 in UTC with
milliseconds; in tables they are relative, unless `--utc` is given. The values may come from devices and strangers, so
nothing in them is read as markup, and no control character reaches the terminal.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich.cells import cell_len, set_cell_size

from restante.cli.remote.times import is_time_name, moment, normalised, relative, rfc3339

_encoder = msgspec.json.Encoder()
GAP = 2
TEXT_WIDTH_MIN = 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column whose value is computed. An id is never cut."""

    value: Callable[[Any], object]
    is_id: bool = False


# The title of each column, and the field, attribute or function that gives its value for an item.
Columns = Mapping[str, "str | Callable[[Any], object] | Column"]


# What a server sent.


def print_list(page: Mapping[str, Any], columns: Columns, *, as_json: bool, is_utc: bool, when_empty: str) -> None:
    """Print a page of a list, and how to get the next page."""
    if as_json:
        print_json(normalised({"items": page["items"], "next": page.get("next")}))
        return
    values = [_values(item, columns) for item in page["items"]]
    # Ids and times are useless when they are cut.
    uncut = _id_columns(columns) | {n for row in values for n, value in enumerate(row) if isinstance(value, datetime)}
    rows = [[_shown(value, is_utc) for value in row] for row in values]
    print_table(list(columns), rows, when_empty=when_empty, uncut=uncut)
    if page.get("next") is not None:
        typer.echo(f"There are more: --after {page['next']}", err=True)


def print_one(item: Mapping[str, Any], fields: Columns | None, *, as_json: bool, is_utc: bool) -> None:
    """Print one thing: these fields, or all that have a value."""
    if as_json:
        print_json(normalised(item))
        return
    if fields is None:
        pairs = [(name.replace("_", " "), _of_name(name, value)) for name, value in item.items()]
    else:
        pairs = list(zip(fields, _values(item, fields), strict=True))
    print_fields([(name, _shown(value, is_utc)) for name, value in pairs if value not in (None, "", [], {})])


def print_text(result: Any, text: str, notes: Iterable[str], *, as_json: bool) -> None:
    """Print what a command did: the result as JSON, or the sentence with the fields of the result in it."""
    if as_json:
        print_json(normalised(result))
        return
    fields = {name: _in_sentence(value) for name, value in result.items()} if isinstance(result, Mapping) else {}
    typer.echo(printable_lines(text.format_map(fields)))
    for note in notes:
        typer.echo(printable_lines(note))


def _in_sentence(value: Any) -> Any:
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else value


def print_counts(counts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print how many items there are, and how many of them in each state."""
    if as_json:
        print_json(counts)
        return
    print_fields(_count_lines(counts, ""))


def _count_lines(counts: Mapping[str, Any], prefix: str) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = []
    for name, value in counts.items():
        if not isinstance(value, Mapping):
            lines.append((name.replace("_", " "), value))
        elif "is_exact" in value:
            lines.append((prefix + name, value["value"] if value["is_exact"] else f"{value['value']} or more"))
        else:
            lines += _count_lines(value, "" if name == "states" else f"{name} ")
    return lines


def write_parts(parts: Iterable[bytes], out: Path | None) -> None:
    """Write an export as it arrives, to the file or to standard output."""
    if out is None:
        stream = typer.get_binary_stream("stdout")
        for part in parts:
            stream.write(part)
        stream.flush()
        return
    with out.open("wb") as file:
        file.writelines(parts)
    typer.echo(f"Written to {out}.", err=True)


def when(name: str) -> Column:
    """A column: the time in the field of that name."""
    return Column(lambda item: moment(item.get(name)))


def identity(name: str) -> Column:
    """A column: the id in the field of that name."""
    return Column(lambda item: item.get(name), is_id=True)


def joined(name: str) -> Column:
    """A column: the list in the field of that name."""
    return Column(lambda item: ", ".join(map(str, item.get(name) or ())))


def _of_name(name: str, value: Any) -> Any:
    return moment(value) or value if is_time_name(name) else value


def _shown(value: Any, is_utc: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        is_absolute = is_utc or not sys.stdout.isatty()
        return rfc3339(value) if is_absolute else relative(value, datetime.now(UTC))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    if isinstance(value, dict | list):
        return _encoder.encode(normalised(value)).decode()
    return str(value)


def _id_columns(columns: Columns) -> set[int]:
    return {
        number
        for number, (title, value) in enumerate(columns.items())
        if (isinstance(value, Column) and value.is_id) or title == "id"
    }


# Results of commands that work on the data folder.


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
        print_json({"items": items if json_value is None else json_value, "next": None})
    else:
        print_table(list(columns), [_values(item, columns) for item in items], when_empty=when_empty)


def print_json(value: object) -> None:
    typer.echo(_encoder.encode(value).decode())


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, when_empty: str, uncut: Iterable[int] = ()
) -> None:
    """A table that fits the terminal, with no id cut; tab-separated lines, the first with the titles, in a pipe."""
    texts = [[printable("" if value is None else str(value)) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for line in [columns, *texts] if texts else []:
            typer.echo("\t".join(line))
        return
    if not texts:
        typer.echo(when_empty)
        return
    widths = _fitted(columns, texts, set(uncut), shutil.get_terminal_size().columns)
    typer.echo(_bold(_line(columns, widths)))
    for row in texts:
        typer.echo(_line(row, widths))
    hidden = [title for n, title in enumerate(columns) if widths[n] is None and any(row[n] for row in texts)]
    if hidden:
        typer.echo(f"No room for: {', '.join(hidden)}. See --json.", err=True)


def _fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], uncut: set[int], terminal: int) -> list[int | None]:
    """The widths of the columns, None if hidden: empty ones are hidden first, then the last ones; texts are cut."""
    full = [max(map(cell_len, (title, *(row[number] for row in rows)))) for number, title in enumerate(columns)]
    widths: list[int | None] = list(full)
    least = [
        width if number in uncut else min(width, max(TEXT_WIDTH_MIN, cell_len(columns[number])))
        for number, width in enumerate(full)
    ]
    empty = [number for number in range(1, len(full)) if not any(row[number] for row in rows)]
    for number in (*empty, *range(len(full) - 1, 0, -1)):
        if _total(_shown_only(least, widths)) <= terminal:
            break
        widths[number] = None
    while _total(widths) > terminal:
        cuttable = [n for n, width in enumerate(widths) if width is not None and width > least[n]]
        if not cuttable:
            break
        widest = max(cuttable, key=lambda n: widths[n] or 0)
        widths[widest] = (widths[widest] or 0) - 1
    return widths


def _shown_only(least: Sequence[int], widths: Sequence[int | None]) -> list[int | None]:
    return [None if width is None else size for size, width in zip(least, widths, strict=True)]


def _total(widths: Sequence[int | None]) -> int:
    """The width of a line."""
    shown = [width for width in widths if width is not None]
    return sum(shown) + GAP * (len(shown) - 1)


def _line(cells: Sequence[str], widths: Sequence[int | None]) -> str:
    shown = [_cut(cell, width) for cell, width in zip(cells, widths, strict=True) if width is not None]
    return (" " * GAP).join(shown).rstrip()


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text + " " * (width - cell_len(text))
    return set_cell_size(text, width - 1) + "…"


def _bold(text: str) -> str:
    return text if "NO_COLOR" in os.environ else f"\x1b[1m{text}\x1b[0m"


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print one field per line."""
    if not sys.stdout.isatty():
        for name, value in fields:
            typer.echo(f"{name}\t{printable('' if value is None else str(value))}")
        return
    pairs = [(name, printable("" if value is None else str(value))) for name, value in fields]
    width = max((cell_len(name) for name, _ in pairs), default=0)
    for name, text in pairs:
        typer.echo(f"{_bold(_cut(name, width))}{' ' * GAP}{text}")


def print_error(message: str) -> None:
    typer.echo(f"restante: {printable(message)}", err=True)


def printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _values(item: object, columns: Columns) -> list[object]:
    return [_value(item, value) for value in columns.values()]


def _value(item: object, source: "str | Callable[[Any], object] | Column") -> object:
    if isinstance(source, Column):
        return source.value(item)
    if not isinstance(source, str):
        return source(item)
    return item.get(source) if isinstance(item, Mapping) else attrgetter(source)(item)
