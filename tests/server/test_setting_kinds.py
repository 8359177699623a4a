from pathlib import Path

import pytest

from restante.server.setting_kinds import (
    Address,
    BasePath,
    Explained,
    Folder,
    Fraction,
    Issuers,
    KeyText,
    Kind,
    ListenAddress,
    OneOf,
    PublicUrl,
    Whole,
    YesOrNo,
)

HEX_KEY = "ab" * 32
BASE64_KEY = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Whole(1, 10), "1", 1),
        (Whole(1, 10), 10, 10),
        (Fraction(0.5, 2), "0.5", 0.5),
        (Fraction(0.5, 2), 2, 2.0),
        (YesOrNo(), True, True),
        (YesOrNo(), "No", False),
        (YesOrNo(), "on", True),
        (OneOf(("a", "b")), "b", "b"),
        (Folder(), "/srv/restante", Path("/srv/restante")),
        (ListenAddress(), "127.0.0.1:8080", Address("127.0.0.1", 8080)),
        (ListenAddress(), "[::1]:0", Address("::1", 0)),
        (ListenAddress(), "localhost:65535", Address("localhost", 65535)),
        (PublicUrl(), "https://updates.example.com/", "https://updates.example.com"),
        (PublicUrl(), "http://[::1]:8080", "http://[::1]:8080"),
        (BasePath(), "/open-banking/v4.0", "/open-banking/v4.0"),
        (BasePath(), "/a/", "/a"),
        (BasePath(), "/", ""),
        (BasePath(), "", ""),
        (KeyText(), HEX_KEY, HEX_KEY),
        (KeyText(), BASE64_KEY, BASE64_KEY),
        (KeyText(), f" {BASE64_KEY.rstrip('=')}\n", BASE64_KEY.rstrip("=")),
    ],
)
def test_reads(kind: Kind, raw: object, value: object) -> None:
    assert kind.read(raw) == value


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        *((Whole(1, 10), raw) for raw in ("0", "11", "x", "", "1.5", 1.5, True, None)),
        (Whole(1, 10), []),
        *((Fraction(0.5, 2), raw) for raw in ("0.4", "2.1", "nan", "inf", "", True, None)),
        *((YesOrNo(), raw) for raw in ("", "maybe", 2, None)),
        *((OneOf(("a", "b")), raw) for raw in ("", "c", None, 1)),
        *((Folder(), raw) for raw in ("", "a\0b", 3, "~nobody-of-that-name/data")),
        *((ListenAddress(), raw) for raw in ("8080", ":8080", "a:65536", "::1:80", "[x]:80", "a:b", "a b:1", 80)),
        *((PublicUrl(), raw) for raw in ("host", "ftp://host", "https://", "https://host/path", "https://host?q")),
        *((PublicUrl(), raw) for raw in ("https://u:p@host", "https://host:x", "https://ho st", "https://host:0", 1)),
        *((BasePath(), raw) for raw in ("a", "a/b", "//", "/a//b", "/a b", "/{a}", "/ä", "/a?b", 1, None)),
        *((KeyText(), raw) for raw in ("", "ab" * 31, "zz" * 32, "é", 5, BASE64_KEY[:-4])),
    ],
)
def test_refuses(kind: Kind, raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — a kind's refusal is bare; `expected` says what it wants
        kind.read(raw)


def test_says_the_bounds() -> None:
    assert Whole(1, 10).expected == "a whole number from 1 to 10"
    assert Fraction(0.5, 2).expected == "a number from 0.5 to 2"
    assert OneOf(("a", "b")).expected == "one of a, b"


def test_writes_an_address_as_it_is_read() -> None:
    for text in ("127.0.0.1:8080", "[::1]:8080", "localhost:1"):
        assert str(ListenAddress().read(text)) == text


TABLE = {"issuer": "https://a.example", "jwks": "/etc/a.json", "algorithms": ["ES256"]}


def test_reads_issuers_from_tables_and_from_json() -> None:
    (from_table,) = Issuers().read([TABLE])
    (from_json,) = Issuers().read('[{"issuer": "https://a.example", "jwks": "/etc/a.json", "algorithms": ["ES256"]}]')
    assert from_table == from_json
    assert (from_table.issuer, from_table.audience) == ("https://a.example", None)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("[", "truncated"),
        ("{}", "array"),
        ([{**TABLE, "jwks": ""}], "jwks"),
        ([{"issuer": "a"}], "jwks"),
        ([{**TABLE, "audiance": "x"}], "audiance"),
        ([{**TABLE, "algorithms": []}], "algorithms"),
        ([{**TABLE, "algorithms": ["HS256"]}], "algorithms"),
        ([{**TABLE, "algorithms": ["none"]}], "algorithms"),
        ([{**TABLE, "jwks": "http://elsewhere.example/jwks"}], "https"),
        ([TABLE, TABLE], "twice"),
    ],
)
def test_explains_what_is_wrong_with_an_issuer(raw: object, said: str) -> None:
    with pytest.raises(Explained, match=said):
        Issuers().read(raw)
