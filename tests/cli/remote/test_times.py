from datetime import UTC, datetime, timedelta

import pytest

from restante.cli.remote.times import moment, normalised, parse_duration, parse_since, relative, rfc3339
from restante.core.errors import BadInput

NOW = datetime(2026, 1, 18, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "value", [1_768_730_400, 1_768_730_400_000, "2026-01-18T10:00:00Z", "2026-01-18T11:00:00+01:00"]
)
def test_all_times_of_the_api_become_one(value: object) -> None:
    found = moment(value)
    assert found == NOW
    assert rfc3339(found) == "2026-01-18T10:00:00.000Z"


def test_values_that_are_no_times_stay() -> None:
    value = {"id": 7, "status_at": "soon", "params": {"at": 1_768_730_400}, "items": [{"created_at": 1_768_730_400}]}
    assert normalised(value) == {**value, "items": [{"created_at": "2026-01-18T10:00:00.000Z"}]}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (5, "5 s ago"), (119, "119 s ago"), (180, "3 min ago"), (7200, "2 h ago"), (86400 * 3, "3 d ago"),
     (-180, "in 3 min")],
)  # fmt: skip
def test_relative_times(seconds: int, text: str) -> None:
    assert relative(NOW - timedelta(seconds=seconds), NOW) == text


def test_since_is_a_time_ago_or_a_time() -> None:
    before = datetime.now(UTC)
    assert before <= parse_since("2h") + timedelta(hours=2) <= datetime.now(UTC)
    assert parse_since("2026-01-18T10:00:00Z") == NOW
    for wrong in ("yesterday", "-1h", "1y", "99999999999999w"):
        with pytest.raises(BadInput, match="--since"):
            parse_since(wrong)


def test_durations() -> None:
    assert [parse_duration(text, "--for") for text in ("90", "90s", "15m", "1h", "7d")] == [90, 90, 900, 3600, 604800]
    with pytest.raises(BadInput, match="--for"):
        parse_duration("1.5h", "--for")
