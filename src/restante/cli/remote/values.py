"""Values of options: how they are read, and what the help and the completion show of them."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import typer

from restante.core.errors import BadInput

ID_MAX = 2**63 - 1  # the largest integer of the database
DIGITS_MAX = 19


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX and int(text) <= ID_MAX


def whole_number(text: str | int) -> int:
    """Read a number; Typer's own type would print its bounds in every help text. A default is a number already."""
    text = str(text)
    if not is_number(text):
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(text)


def number(text: str | float) -> float:
    """Read a number with or without decimals."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise typer.BadParameter(f"{text!r} is not a number")
    return found


def one_of(*names: str) -> Callable[[str], str]:
    """A parser for a choice by name, in any case."""
    by_key = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        if text.lower() not in by_key:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}")
        return by_key[text.lower()]

    return parse


def choice(flag: str, names: Iterable[str], text: str) -> Any:
    """An option with few values, which the help and the completion show."""
    listed = list(names)
    return typer.Option(
        flag,
        parser=one_of(*listed),
        metavar="|".join(listed),
        help=text,
        show_default=False,
        autocompletion=lambda incomplete: [each for each in listed if each.lower().startswith(incomplete.lower())],
    )


def json_value(text: str, field: str) -> Any:
    """A JSON value: the text itself, `@FILE`, or `-` for standard input."""
    if text == "-":
        text = typer.get_text_stream("stdin").read()
    elif text.startswith("@"):
        text = Path(text[1:]).read_text("utf-8")
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadInput(field, f"JSON, @FILE, or - for standard input ({error})") from None


def json_object(text: str, field: str) -> dict[str, Any]:
    """A JSON object: the text itself, `@FILE`, or `-` for standard input."""
    found = json_value(text, field)
    if not isinstance(found, dict):
        raise BadInput(field, "a JSON object, @FILE, or - for standard input")
    return found


def json_file(path: Path, field: str) -> dict[str, Any]:
    """The JSON object in a file; `-` is standard input."""
    is_stdin = str(path) == "-"
    text = typer.get_text_stream("stdin").read() if is_stdin else path.read_text("utf-8")
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadInput(field, f"a JSON object in {'standard input' if is_stdin else path} ({error})") from None
