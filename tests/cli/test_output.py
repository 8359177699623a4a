import json
from typing import Any

import pytest

from restante.cli.output import (
    Columns,
    identity,
    joined,
    print_error,
    print_fields,
    print_list,
    print_one,
    print_result,
    print_table,
    print_text,
    printable,
    when,
)

COLUMNS: Columns = {"id": identity("id"), "name": "name", "types": joined("types"), "made": when("created_at")}
ITEM: dict[str, Any] = {"id": "i" * 40, "name": "n" * 200, "types": ["a", "b"], "created_at": 1_768_730_400}


def test_markup_and_control_characters_are_not_interpreted(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "n"), [("[red]x[/red]\x1b[2J", 1), (None, 2)], when_empty="none")
    print_fields([("name", "[bold]\x07")])
    print_error("bad\x1b]0;title")
    print_text({"name": "x\x1b"}, "Made {name}.", ["note\x07"], as_json=False)
    printed = capsys.readouterr()
    assert "[red]x[/red]�[2J" in printed.out
    assert "[bold]�" in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert "\x07" not in printed.out
    assert printed.err == "restante: bad�]0;title\n"


def test_pipe_gets_tab_separated_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_list({"items": [ITEM], "next": 7}, COLUMNS, as_json=False, is_utc=False, when_empty="none")
    printed = capsys.readouterr()
    header, row = (line.split("\t") for line in printed.out.splitlines())
    assert header == ["id", "name", "types", "made"]
    assert row == ["i" * 40, "n" * 200, "a, b", "2026-01-18T10:00:00.000Z"]
    assert printed.err == "There are more: --after 7\n"


def test_table_fits_the_terminal_and_cuts_no_id(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    print_list({"items": [ITEM], "next": None}, COLUMNS, as_json=False, is_utc=True, when_empty="none")
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert ITEM["id"] in lines[1]
    assert "…" in lines[1]


def test_columns_without_room_are_hidden_and_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    columns: Columns = {**COLUMNS, "empty": "empty", "state": "state"}
    page = {"items": [{**ITEM, "state": "running"}], "next": None}
    print_list(page, columns, as_json=False, is_utc=True, when_empty="none")
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["id", ITEM["id"]]
    assert printed.err == "No room for: name, types, made, state. See --json.\n"


def test_terminal_gets_relative_times_unless_utc_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    item = {"created_at": 1_000_000_000}
    for is_utc in (False, True):
        print_one(item, None, as_json=False, is_utc=is_utc)
    relative, absolute = capsys.readouterr().out.splitlines()
    assert relative.rstrip().endswith("d ago")
    assert absolute.rstrip().endswith("2001-09-09T01:46:40.000Z")


def test_empty_list_says_so_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_table(("a",), [], when_empty="There is nothing.")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(("a",), [], when_empty="There is nothing.")
    assert capsys.readouterr().out == "There is nothing.\n"


def test_json_has_one_shape(capsys: pytest.CaptureFixture[str]) -> None:
    print_list({"items": [{"created_at": 1_768_730_400}]}, {}, as_json=True, is_utc=False, when_empty="")
    assert json.loads(capsys.readouterr().out) == {
        "items": [{"created_at": "2026-01-18T10:00:00.000Z"}],
        "next": None,
    }


def test_fields_without_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_one({"id": 1, "reason": None, "types": ["a"]}, None, as_json=False, is_utc=True)
    assert capsys.readouterr().out == "id\t1\ntypes\ta\n"


def test_letters_of_every_language_are_kept() -> None:
    assert printable("Grüße, 世界") == "Grüße, 世界"


def test_result_is_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_result({"id": 1}, "Site 1.", False)
    print_result({"id": 1}, "Site 1.", True)
    assert capsys.readouterr().out == 'Site 1.\n{"id":1}\n'
