from types import SimpleNamespace

import pytest

from restante.cli.output import (
    format_time,
    present_fields,
    print_error,
    print_fields,
    print_page,
    print_record,
    print_result,
    print_table,
    printable,
)
from restante.database.paging import Page


def test_markup_and_control_characters_are_not_interpreted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("name", "n"), [("[red]x[/red]\x1b[2J", 1), (None, 2)], when_empty="none")
    print_fields([("name", "[bold]\x07")])
    print_error("bad\x1b]0;title")
    printed = capsys.readouterr()
    assert "[red]x[/red]�[2J" in printed.out
    assert "[bold]�" in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert printed.err == "restante: bad�]0;title\n"


def test_empty_table_prints_message(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a",), [], when_empty="There is nothing.")
    assert capsys.readouterr().out == "There is nothing.\n"


def test_piped_lines_are_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a", "b"), [("x" * 150, "y" * 150)], when_empty="none")
    assert capsys.readouterr().out.count("\n") == 2


def test_times_are_utc() -> None:
    assert format_time(1_800_000_000_123) == "2027-01-15 08:00:00Z"
    assert format_time(None) == ""
    assert format_time(10**30) == f"{10**30} ms"


def test_letters_of_every_language_are_kept() -> None:
    assert printable("Grüße, 世界") == "Grüße, 世界"


def test_result_is_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_result({"id": 1}, "Site 1.", False)
    print_result({"id": 1}, "Site 1.", True)
    assert capsys.readouterr().out == 'Site 1.\n{"id":1}\n'


def test_page_is_a_table_that_names_the_next_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = Page([SimpleNamespace(id=1, owner=SimpleNamespace(name="a"))], 1)
    print_page(page, {"id": "id", "owner": "owner.name", "double": lambda item: item.id * 2}, False, when_empty="none")
    header, row, following = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "owner", "double"]
    assert row.split() == ["1", "a", "2"]
    assert following == "There are more: --after 1"


def test_page_as_json_is_the_whole_page(capsys: pytest.CaptureFixture[str]) -> None:
    print_page(Page([{"id": 1}], 1), {"id": "id"}, True, when_empty="none")
    assert capsys.readouterr().out == '{"items":[{"id":1}],"next":1}\n'


def test_record_is_a_field_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_record(SimpleNamespace(id=1, name="a"), {"id": "id", "name": "name"}, False)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["id", "1"], ["name", "a"]]


def test_present_fields_skip_none_and_show_lists_as_json() -> None:
    record = SimpleNamespace(created_at="today", reason=None, types=["a", "b"])
    assert present_fields(record, ("created_at", "reason", "types")) == {"created at": "today", "types": '["a","b"]'}
