import gzip

import pytest

from restante.core.errors import BadInput, TooLarge, WrongMediaType
from restante.web.content_coding import MEMBERS_MAX, unpacked

TEXT = b'{"records": []}'


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_plain_stays_plain(encoding: str) -> None:
    assert unpacked(TEXT, encoding, 1) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_is_unpacked(encoding: str) -> None:
    assert unpacked(gzip.compress(TEXT, mtime=0), encoding, 100) == TEXT


def test_several_members_are_one_body() -> None:
    assert unpacked(gzip.compress(b"[1,", mtime=0) + gzip.compress(b"2]", mtime=0), "gzip", 100) == b"[1,2]"


def test_the_bound_is_of_all_members_together() -> None:
    half = gzip.compress(b"x" * 50, mtime=0)
    assert unpacked(half + half, "gzip", 100) == b"x" * 100
    with pytest.raises(TooLarge):
        unpacked(half + half, "gzip", 99)


def test_a_bomb_is_refused() -> None:
    with pytest.raises(TooLarge):
        unpacked(gzip.compress(bytes(10_000_000)), "gzip", 1_000_000)


def test_members_are_counted() -> None:
    empty = gzip.compress(b"", mtime=0)
    assert unpacked(empty * MEMBERS_MAX, "gzip", 10) == b""
    with pytest.raises(BadInput):
        unpacked(empty * (MEMBERS_MAX + 1), "gzip", 10)


@pytest.mark.parametrize("body", [b"", TEXT, gzip.compress(TEXT, mtime=0)[:-1], gzip.compress(TEXT, mtime=0) + b"more"])
def test_what_is_not_gzip_is_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        unpacked(body, "gzip", 100)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd"])
def test_other_codings_are_not_taken(encoding: str) -> None:
    with pytest.raises(WrongMediaType):
        unpacked(TEXT, encoding, 100)
