import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.cursor import (
    START,
    LogHead,
    Position,
    check_cursor,
    parse_cursor,
    parse_if_none_match,
    trim_to,
)
from restante.core.errors import BadInput, CursorExpired

GOOD = [("0-0", START), ("1736900123421-9", Position(1736900123421, 9)), ("9" * 18 + "-1", Position(10**18 - 1, 1))]
BAD = [
    "", "-", "1", "1-", "-1", "1-2-3", "01-2", "1-02", "+1-2", "1_0-2", "1-2 ", " 1-2", "1-2\n", "1736900123.42-9",
    "a-b", "1" * 19 + "-1", "1-" + "1" * 19, "٣-٣", "1–2", "*", '"1-2"', "0x1-2", "1e3-2",
]  # fmt: skip


@pytest.mark.parametrize(("text", "position"), GOOD)
def test_cursor_is_parsed_and_written_the_same(text: str, position: Position) -> None:
    assert parse_cursor(text) == position
    assert str(position) == text


@pytest.mark.parametrize("text", BAD)
def test_malformed_cursor_is_bad_input_that_names_the_field(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_cursor(text)
    assert refused.value.field == "cursor"


@given(st.text())
def test_any_other_text_is_bad_input(text: str) -> None:
    for parse in (parse_cursor, parse_if_none_match):
        try:
            position = parse(text)
        except BadInput:
            continue
        assert str(position) in text


@pytest.mark.parametrize("value", ["12-3", '"12-3"', 'W/"12-3"', ' "12-3" ', "W/12-3"])
def test_if_none_match_is_accepted_bare_quoted_and_weak(value: str) -> None:
    assert parse_if_none_match(value) == Position(12, 3)


@pytest.mark.parametrize(
    "value", ["*", '"12-3', '12-3"', '"', '""', '"12-3", "12-4"', "'12-3'", 'w/"12-3"', 'W/W/"12-3"']
)
def test_if_none_match_of_any_other_form_is_refused(value: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_if_none_match(value)
    assert refused.value.field == "If-None-Match"


HEAD = LogHead(newest=Position(50, 9), trimmed=Position(30, 4), earliest=Position(30, 5))


@pytest.mark.parametrize(
    "cursor", [Position(30, 4), Position(30, 5), Position(40, 7), Position(50, 9), Position(31, 0)]
)
def test_cursor_that_misses_no_signal_is_valid(cursor: Position) -> None:
    check_cursor(cursor, HEAD)


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        (START, "cursor_trimmed"),
        (Position(30, 3), "cursor_trimmed"),
        (Position(29, 99), "cursor_trimmed"),
        (Position(50, 10), "cursor_unknown"),
        (Position(51, 1), "cursor_unknown"),
    ],
)
def test_cursor_that_would_miss_signals_is_expired(cursor: Position, reason: str) -> None:
    with pytest.raises(CursorExpired) as expired:
        check_cursor(cursor, HEAD)
    assert expired.value.params == {
        "action": "full_resync",
        "reason": reason,
        "reset_cursor": "50-9",
        "earliest_retained_id": "30-5",
    }


def test_start_is_valid_while_nothing_is_trimmed() -> None:
    check_cursor(START, LogHead())
    check_cursor(START, LogHead(Position(5, 3), START, Position(4, 1)))
    with pytest.raises(CursorExpired):
        check_cursor(Position(0, 1), LogHead())


@pytest.mark.parametrize(("now_ms", "position"), [(49, (50, 10)), (50, (50, 10)), (51, (51, 10)), (-5, (50, 10))])
def test_next_position_never_goes_back_with_the_clock(now_ms: int, position: tuple[int, int]) -> None:
    assert HEAD.next_position(now_ms) == position


def test_log_is_trimmed_when_it_holds_more_than_keep_and_slack() -> None:
    assert HEAD.retained == 5
    assert trim_to(HEAD, keep=3, slack=2) is None
    assert trim_to(HEAD, keep=3, slack=1) == 6
    assert trim_to(HEAD, keep=5, slack=0) is None


@given(st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda pair: Position(*pair)))
def test_cursor_expires_exactly_if_a_signal_is_missing(cursor: Position) -> None:
    log = [Position(10 + 2 * (n // 2), n) for n in range(1, 10)]
    head = LogHead(newest=log[-1], trimmed=log[3], earliest=log[4])
    misses = any(cursor < trimmed for trimmed in log[:4]) or cursor > log[-1]
    try:
        check_cursor(cursor, head)
    except CursorExpired:
        assert misses
    else:
        assert not misses
