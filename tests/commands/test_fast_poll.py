"""Which queries the fast lane takes upon itself; what it answers is tested beside the application's answers."""

import pytest

from restante.commands.fast_poll import _parse_query


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (b"limit=1", (1, 0, None)),
        (b"limit=50&wait=30", (50, 30, None)),
        (b"zone_id=7", (10, 0, 7)),
        (b"wait=5&zone_id=7&limit=3", (3, 5, 7)),
    ],
)
def test_plain_queries_are_read(query: bytes, wanted: tuple[int, int, int | None]) -> None:
    assert _parse_query(query) == wanted


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
def test_every_doubt_is_the_applications(query: bytes) -> None:
    assert _parse_query(query) is None
