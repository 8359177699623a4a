"""Small pieces of pages: relative times, durations, numbers, states, differences."""

import pytest

from restante.console.rendering.diffs import diff_lines, json_diff_lines
from restante.console.rendering.rendering import STATE_KINDS, Rendering, duration, number, pretty, relative_time, state

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (NOW_MS, "just now"),
        (NOW_MS - 4_999, "just now"),
        (NOW_MS - 59_999, "59 s ago"),
        (NOW_MS - 60_000, "1 min ago"),
        (NOW_MS - 2 * 3_600_000, "2 h ago"),
        (NOW_MS + 90_000, "in 1 min"),
        (NOW_MS - 60 * DAY_MS, "60 d ago"),
        (NOW_MS - 61 * DAY_MS, "2026-11-15"),
        (NOW_MS + 400 * DAY_MS, "2028-02-19"),
    ],
)
def test_time_is_shown_relative_to_now(at_ms: int, text: str) -> None:
    assert relative_time(at_ms, NOW_MS) == text


def test_time_has_the_absolute_one_on_hover() -> None:
    rendering = Rendering(lambda: NOW_MS / 1000)
    shown = '<time datetime="2027-01-15T07:59:00.000Z" title="2027-01-15T07:59:00.000Z">1 min ago</time>'
    assert rendering.when(NOW_MS - 60_000) == shown
    assert rendering.when("2027-01-15T07:59:00Z") == shown
    assert rendering.when(None, none="<never>") == '<span class="none">&lt;never&gt;</span>'


def test_numbers_and_durations_are_short() -> None:
    assert [number(each) for each in (None, 0, 7.25, 1234567)] == ["–", "0", "7.2", "1\u202f234\u202f567"]
    assert [duration(each) for each in (0, 59, 60, 7200, 90_000)] == ["0 s", "59 s", "1 min", "2 h", "1 d"]


def test_state_is_escaped_and_every_kind_has_a_mark() -> None:
    assert "&lt;b&gt;" in state("<b>")
    for word in STATE_KINDS:
        assert "<svg" in state(word)


def test_text_that_is_no_json_is_shown_as_it_is() -> None:
    assert pretty("{not json") == "{not json"
    assert pretty('{"a":1}') == '{\n  "a": 1\n}'


def test_difference_has_numbers_and_a_few_lines_around() -> None:
    before = "\n".join(str(line) for line in range(1, 21))
    lines = diff_lines(before, before.replace("10", "ten"))
    assert [(line.kind, line.before, line.after, line.text) for line in lines] == [
        ("skipped", None, None, "…"),
        ("same", 7, 7, "7"),
        ("same", 8, 8, "8"),
        ("same", 9, 9, "9"),
        ("removed", 10, None, "10"),
        ("added", None, 10, "ten"),
        ("same", 11, 11, "11"),
        ("same", 12, 12, "12"),
        ("same", 13, 13, "13"),
    ]
    assert diff_lines(before, before) == []


def test_first_version_is_all_added() -> None:
    assert {line.kind for line in json_diff_lines(None, b'{"a":1}')} == {"added"}
    assert json_diff_lines(b'{"a": 1}', b'{"a":1}') == []
