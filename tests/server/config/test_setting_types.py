import ipaddress
from pathlib import Path

import pytest

from restante.server.config.setting_types import (
    Address,
    BasePath,
    Boolean,
    Choice,
    CommaList,
    FilePath,
    FolderPath,
    Integer,
    InvalidValue,
    Issuers,
    ListenAddress,
    MasterKeyText,
    NetworkList,
    Number,
    PublicUrl,
    SettingType,
    Text,
)
from restante.server.config.settings_sources import SettingsError, load

HEX_KEY = "ab" * 32
BASE64_KEY = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="


@pytest.mark.parametrize(
    ("setting_type", "raw", "value"),
    [
        (Integer(1, 10), "1", 1),
        (Integer(1, 10), 10, 10),
        (Number(0.5, 2), "0.5", 0.5),
        (Number(0.5, 2), 2, 2.0),
        (Boolean(), True, True),
        (Boolean(), "No", False),
        (Boolean(), "on", True),
        (Choice(("a", "b")), "b", "b"),
        (FolderPath(), "/srv/restante", Path("/srv/restante")),
        (ListenAddress(), "127.0.0.1:8080", Address("127.0.0.1", 8080)),
        (ListenAddress(), "[::1]:0", Address("::1", 0)),
        (ListenAddress(), "localhost:65535", Address("localhost", 65535)),
        (PublicUrl(), "https://updates.example.com/", "https://updates.example.com"),
        (PublicUrl(), "http://[::1]:8080", "http://[::1]:8080"),
        (BasePath(), "/open-banking/v4.0", "/open-banking/v4.0"),
        (BasePath(), "/a/", "/a"),
        (BasePath(), "/", ""),
        (BasePath(), "", ""),
        (MasterKeyText(), HEX_KEY, HEX_KEY),
        (MasterKeyText(), BASE64_KEY, BASE64_KEY),
        (MasterKeyText(), f" {BASE64_KEY.rstrip('=')}\n", BASE64_KEY.rstrip("=")),
    ],
)
def test_valid_value_is_parsed(setting_type: SettingType, raw: object, value: object) -> None:
    assert setting_type.parse(raw) == value


@pytest.mark.parametrize(
    ("setting_type", "raw"),
    [
        *((Integer(1, 10), raw) for raw in ("0", "11", "x", "", "1.5", 1.5, True, None)),
        (Integer(1, 10), []),
        *((Number(0.5, 2), raw) for raw in ("0.4", "2.1", "nan", "inf", "", True, None)),
        *((Boolean(), raw) for raw in ("", "maybe", 2, None)),
        *((Choice(("a", "b")), raw) for raw in ("", "c", None, 1)),
        *((FolderPath(), raw) for raw in ("", "a\0b", 3, "~nobody-of-that-name/data")),
        *((ListenAddress(), raw) for raw in ("8080", ":8080", "a:65536", "::1:80", "[x]:80", "a:b", "a b:1", 80)),
        *((PublicUrl(), raw) for raw in ("host", "ftp://host", "https://", "https://host/path", "https://host?q")),
        *((PublicUrl(), raw) for raw in ("https://u:p@host", "https://host:x", "https://ho st", "https://host:0", 1)),
        *((BasePath(), raw) for raw in ("a", "a/b", "//", "/a//b", "/a b", "/{a}", "/ä", "/a?b", 1, None)),
        *((MasterKeyText(), raw) for raw in ("", "ab" * 31, "zz" * 32, "é", 5, BASE64_KEY[:-4])),
    ],
)
def test_invalid_value_is_refused(setting_type: SettingType, raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — the error of a setting type is bare; `expected` has the text
        setting_type.parse(raw)


def test_expected_names_bounds() -> None:
    assert Integer(1, 10).expected == "a whole number from 1 to 10"
    assert Number(0.5, 2).expected == "a number from 0.5 to 2"
    assert Choice(("a", "b")).expected == "one of a, b"


def test_address_is_written_as_it_is_parsed() -> None:
    for text in ("127.0.0.1:8080", "[::1]:8080", "localhost:1"):
        assert str(ListenAddress().parse(text)) == text


TABLE = {"issuer": "https://a.example", "jwks": "/etc/a.json", "algorithms": ["ES256"]}


def test_issuers_are_parsed_from_tables_and_json() -> None:
    (from_table,) = Issuers().parse([TABLE])
    (from_json,) = Issuers().parse('[{"issuer": "https://a.example", "jwks": "/etc/a.json", "algorithms": ["ES256"]}]')
    assert from_table == from_json
    assert (from_table.issuer, from_table.audience) == ("https://a.example", None)


@pytest.mark.parametrize(
    ("raw", "message"),
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
def test_invalid_issuer_is_explained(raw: object, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Issuers().parse(raw)


def test_text_is_parsed_or_refused() -> None:
    assert Text().parse("0015800001041RHAAY/bank") == "0015800001041RHAAY/bank"
    assert "512" in Text().expected
    for raw in ("", "a\nb", "x" * 513, 7, None):
        with pytest.raises(ValueError, match=r"^$"):
            Text().parse(raw)


def test_networks_are_parsed_from_text_and_list() -> None:
    expected = CommaList([ipaddress.ip_network("127.0.0.1/32"), ipaddress.ip_network("fd00::/8")])
    assert NetworkList().parse("127.0.0.1, fd00::/8,") == expected
    assert NetworkList().parse(["127.0.0.1", "fd00::/8"]) == expected
    assert NetworkList().parse(expected) == expected
    assert NetworkList().parse("") == CommaList()
    assert str(expected) == "127.0.0.1/32, fd00::/8"


@pytest.mark.parametrize("raw", ["localhost", "10.0.0.1/8", "10.0.0.0/33", ["x"], 5, {"a": 1}])
def test_invalid_network_is_refused(raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — the caller adds what was expected
        NetworkList().parse(raw)


def test_file_path_is_parsed() -> None:
    assert FilePath().parse("a.pem") == Path("a.pem")
    for raw in ("", 5, "a\0b"):
        with pytest.raises(ValueError):  # noqa: PT011 — as above
            FilePath().parse(raw)


def test_network_with_host_bits_is_explained() -> None:
    with pytest.raises(SettingsError, match="has host bits set"):
        load({"trusted_proxies": "10.0.0.1/8"}, {})
