from pathlib import Path

import pytest

from restante.server.config.setting_types import InvalidValue
from restante.server.config.settings import DECLARATIONS
from restante.server.config.settings_sources import SettingsError, load, resolve
from restante.server.config.url_setting_types import OutboxUrls

OUTBOX_URLS = OutboxUrls()
SHOP = "mysql://ada:s3cret@db.example/shop"
DEPOT = "postgresql://ada:s3cret@[::1]:6432/depot?sslmode=require&name=depot"


def test_outbox_urls_of_every_source_are_parsed_alike() -> None:
    expected = OUTBOX_URLS.parse([SHOP, DEPOT])
    assert [address.engine for address in expected] == ["mysql", "postgres"]
    assert OUTBOX_URLS.parse(f"{SHOP} {DEPOT}") == expected
    assert OUTBOX_URLS.parse(f'["{SHOP}", "{DEPOT}"]') == expected
    assert OUTBOX_URLS.parse("") == ()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (SHOP, "mysql://db.example:3306/shop"),
        (DEPOT, "depot"),
        ("postgresql://ada@[::1]:6432/depot", "postgresql://[::1]:6432/depot"),
        ("postgresql://ada@/depot?host=/run/pg", "postgresql:///run/pg:5432/depot"),
        ("mariadb:///shop?unix_socket=/run/maria", "mariadb:///run/maria:3306/shop"),
        ("sqlite:///var/my%20shop.db", "sqlite:///var/my shop.db"),
        ("sqlite:////var/my%20shop.db", "sqlite:///var/my shop.db"),
        ("sqlite:my%20shop.db", f"sqlite://{Path.cwd()}/my shop.db"),
    ],
)
def test_name_identifies_database_without_password(url: str, name: str) -> None:
    (address,) = OUTBOX_URLS.parse([url])
    assert (address.name, address.url) == (name, url)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("oracle://ada:s3cret@db/shop", "does not begin with one of"),
        ("mysql://ada:s3cret@db", "names no database"),
        ("mysql://ada:s3cret@db/", "names no database"),
        ("mysql://ada:s3cret@db:port/shop", "not a URL"),
        ("mysql://ada:s3cret@db/shop?sslmode=x", "no option sslmode"),
        ("mysql://ada:s3cret@db/shop?name=a%20b", "name: expected"),
        ("mysql://ada:s3cret@db/shop?name=server", "name: expected"),
        (f"{SHOP} {SHOP}", "listed twice"),
        ("sqlite:////var/shop.db sqlite:///var/shop.db", "listed twice"),
        ("sqlite://var/shop.db", "expected sqlite:///absolute/path or sqlite:relative/path"),
        ("sqlite://", "expected sqlite:///absolute/path or sqlite:relative/path"),
        ("sqlite:////", "expected sqlite:///absolute/path or sqlite:relative/path"),
        ("sqlite:shop/", "expected sqlite:///absolute/path or sqlite:relative/path"),
        ("sqlite:shop%23.db#x", "expected sqlite:///absolute/path or sqlite:relative/path"),
    ],
)
def test_invalid_outbox_url_is_refused_without_password(raw: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        OUTBOX_URLS.parse(raw)
    with pytest.raises(SettingsError) as caught:
        load({"outbox": [raw] if " " not in raw else raw}, {})
    assert "s3cret" not in str(caught.value)
    assert "outbox: expected" in str(caught.value)


@pytest.mark.parametrize("raw", [7, {"a": 1}, '["s3cret"', [7]])
def test_value_that_is_no_list_of_texts_is_refused(raw: object) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"outbox": raw}, {})
    assert "s3cret" not in str(caught.value)


def test_outbox_urls_are_shown_without_passwords() -> None:
    resolved = resolve({"outbox": [SHOP, DEPOT]}, {})
    assert DECLARATIONS["outbox"].shown(resolved.settings.outbox) == "mysql://db.example:3306/shop, depot"
    assert "s3cret" not in f"{resolved.settings} {resolved.settings!r}"


def test_redis_url_is_read_with_and_without_prefix() -> None:
    for variable in ("REDIS_URL", "RESTANTE_REDIS_URL"):
        resolved = resolve({}, {variable: "redis://ada:s3cret@h:1/2"})
        assert DECLARATIONS["redis_url"].shown(resolved.settings.redis_url) == "redis://h:1/2"
        assert "s3cret" not in repr(resolved.settings)


@pytest.mark.parametrize("raw", ["http://s3cret@h", 7, "redis+sentinel://ada:s3cret@h"])
def test_invalid_redis_url_is_refused_without_repeating_it(raw: object) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"redis_url": raw}, {})
    assert "s3cret" not in str(caught.value)
    assert "redis_url: expected" in str(caught.value)
