"""Lists as files for people: CSV for a spreadsheet, which believes what it opens, and JSON.

A spreadsheet takes a cell that begins with `=` or its like for a formula and runs it. The words in these cells are
those of collectors, so such a cell gets an apostrophe in front, which spreadsheets show as text. Numbers stay numbers.
"""

import csv
import io
from collections.abc import Iterable
from typing import Any

import msgspec

# Also what a spreadsheet skips before it looks, and the full-width forms that some take for the same.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# A byte order mark tells spreadsheets that the text is UTF-8.
_MARK = "\ufeff"


def csv_text(rows: Iterable[msgspec.Struct], kind: type[msgspec.Struct]) -> bytes:
    """The rows with their field names on top, quoted as RFC 4180 has it."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(kind.__struct_fields__)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in kind.__struct_fields__])
    return (_MARK + out.getvalue()).encode()


def _cell(value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return _harmless(bytes(value).decode())
    return _harmless(value) if isinstance(value, str) else value


def _harmless(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text
