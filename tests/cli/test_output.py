import pytest

from restante.cli.output import complain, moment, printable, show_record, show_table


def test_nothing_is_taken_for_markup_or_reaches_the_terminal_as_control(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_table(("name", "n"), [("[red]x[/red]\x1b[2J", 1), (None, 2)], when_empty="none")
    show_record([("name", "[bold]\x07")])
    complain("bad\x1b]0;title")
    printed = capsys.readouterr()
    assert "[red]x[/red]�[2J" in printed.out
    assert "[bold]�" in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert printed.err == "restante: bad�]0;title\n"


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("a",), [], when_empty="There is nothing.")
    assert capsys.readouterr().out == "There is nothing.\n"


def test_piped_lines_are_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("a", "b"), [("x" * 150, "y" * 150)], when_empty="none")
    assert capsys.readouterr().out.count("\n") == 2


def test_moments_are_utc() -> None:
    assert moment(1_800_000_000_123) == "2027-01-15 08:00:00Z"
    assert moment(None) == ""
    assert moment(10**30) == f"{10**30} ms"


def test_letters_of_every_language_are_printable() -> None:
    assert printable("Grüße, 世界") == "Grüße, 世界"
