import csv
import io

import msgspec
import pytest

from restante.commands.export import csv_text


class Line(msgspec.Struct):
    id: int
    reason: str
    temp: float | None = None
    data: msgspec.Raw | None = None


def cells(*lines: Line) -> list[list[str]]:
    text = csv_text(lines, Line).decode("utf-8-sig")
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text, newline="")))


def test_names_on_top_and_empty_cells_for_what_is_not_there() -> None:
    assert cells(Line(1, "hot")) == [["id", "reason", "temp", "data"], ["1", "hot", "", ""]]
    assert cells() == [["id", "reason", "temp", "data"]]


@pytest.mark.parametrize("reason", ['say "stop", now', "two\r\nlines", "ümlaut ✓", "a;b", " "])
def test_whatever_is_in_a_cell_stays_in_it(reason: str) -> None:
    assert cells(Line(1, reason))[1][1] == reason


def test_json_is_one_cell() -> None:
    assert cells(Line(1, "", data=msgspec.Raw(b'{"a":"b,c"}')))[1][3] == '{"a":"b,c"}'


@pytest.mark.parametrize(
    "reason", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", '=HYPERLINK("http://x")']
)
def test_words_are_never_formulas(reason: str) -> None:
    assert cells(Line(1, reason))[1][1] == f"'{reason}"


def test_numbers_stay_numbers() -> None:
    assert cells(Line(-1, "x", temp=-5.5))[1] == ["-1", "x", "-5.5", ""]
