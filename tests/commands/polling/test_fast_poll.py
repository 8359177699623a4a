"""Which queries the fast lane serves. Its responses are tested in test_routes, beside those of the application."""

import pytest

from restante.commands.polling.fast_poll import _parse_query


@pytest.mark.parametrize(
    ("query", "parsed"),
    [
        (b"limit=1", (1, 0, None)),
        (b"limit=50&wait=30", (50, 30, None)),
        (b"zone_id=7", (10, 0, 7)),
        (b"wait=5&zone_id=7&limit=3", (3, 5, 7)),
    ],
)
def test_plain_query_is_parsed(query: bytes, parsed: tuple[int, int, int | None]) -> None:
    assert _parse_query(query) == parsed


@pytest.mark.parametrize(
    "query",
    [
        b"limit=0",
        b"limit=51",
        b"wait=31",
        b"limit",
        b"limit=",
        b"limit=1&limit=1",
        b"limit=%31",
        b"limit=+1",
        b"zone_id=0",
        b"zone_id=1234567890123456789",
        b"limit=\xb2",
        b"other=1",
        b"&",
        b"limit=1&",
    ],
)
def test_query_that_is_not_plain_is_left_to_the_application(query: bytes) -> None:
    assert _parse_query(query) is None
