import gzip

import pytest

from restante.core.errors import BadInput, TooLarge, WrongMediaType
from restante.web.content_coding import MEMBERS_MAX, decompress

TEXT = b'{"records": []}'


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_plain_body_is_unchanged(encoding: str) -> None:
    assert decompress(TEXT, encoding, 1) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_is_decompressed(encoding: str) -> None:
    assert decompress(gzip.compress(TEXT, mtime=0), encoding, 100) == TEXT


def test_gzip_members_are_concatenated() -> None:
    assert decompress(gzip.compress(b"[1,", mtime=0) + gzip.compress(b"2]", mtime=0), "gzip", 100) == b"[1,2]"


def test_limit_applies_to_all_members_together() -> None:
    half = gzip.compress(b"x" * 50, mtime=0)
    assert decompress(half + half, "gzip", 100) == b"x" * 100
    with pytest.raises(TooLarge):
        decompress(half + half, "gzip", 99)


def test_decompression_bomb_is_refused() -> None:
    with pytest.raises(TooLarge):
        decompress(gzip.compress(bytes(10_000_000)), "gzip", 1_000_000)


def test_too_many_members_are_refused() -> None:
    empty = gzip.compress(b"", mtime=0)
    assert decompress(empty * MEMBERS_MAX, "gzip", 10) == b""
    with pytest.raises(BadInput):
        decompress(empty * (MEMBERS_MAX + 1), "gzip", 10)


@pytest.mark.parametrize("body", [b"", TEXT, gzip.compress(TEXT, mtime=0)[:-1], gzip.compress(TEXT, mtime=0) + b"more"])
def test_invalid_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        decompress(body, "gzip", 100)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd"])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(WrongMediaType):
        decompress(TEXT, encoding, 100)
