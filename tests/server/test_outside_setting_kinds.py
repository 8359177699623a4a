import pytest

from restante.server.outside_setting_kinds import OutboxUrls
from restante.server.setting_kinds import Explained
from restante.server.settings import DECLARED
from restante.server.settings_sources import SettingsError, load, resolve

KIND = OutboxUrls()
SHOP = "mysql://ada:s3cret@db.example/shop"
DEPOT = "postgresql://ada:s3cret@[::1]:6432/depot?sslmode=require&name=depot"


def test_several_by_any_source_are_the_same() -> None:
    wanted = KIND.read([SHOP, DEPOT])
    assert [address.engine for address in wanted] == ["mysql", "postgres"]
    assert KIND.read(f"{SHOP} {DEPOT}") == wanted
    assert KIND.read(f'["{SHOP}", "{DEPOT}"]') == wanted
    assert KIND.read("") == ()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (SHOP, "mysql://db.example:3306/shop"),
        (DEPOT, "depot"),
        ("postgresql://ada@[::1]:6432/depot", "postgresql://[::1]:6432/depot"),
        ("postgresql://ada@/depot?host=/run/pg", "postgresql:///run/pg:5432/depot"),
        ("mariadb:///shop?unix_socket=/run/maria", "mariadb:///run/maria:3306/shop"),
        ("sqlite:///var/my%20shop.db", "sqlite:///var/my shop.db"),
    ],
)
def test_a_name_tells_which_database_it_is_and_no_secret(url: str, name: str) -> None:
    (address,) = KIND.read([url])
    assert (address.name, address.url) == (name, url)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("oracle://ada:s3cret@db/shop", "begins with none of"),
        ("mysql://ada:s3cret@db", "names no database"),
        ("mysql://ada:s3cret@db/", "names no database"),
        ("mysql://ada:s3cret@db:port/shop", "not a URL"),
        ("mysql://ada:s3cret@db/shop?sslmode=x", "no option sslmode"),
        ("mysql://ada:s3cret@db/shop?name=a%20b", "name: expected"),
        ("mysql://ada:s3cret@db/shop?name=server", "name: expected"),
        (f"{SHOP} {SHOP}", "there twice"),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(raw: str, said: str) -> None:
    with pytest.raises(Explained, match=said):
        KIND.read(raw)
    with pytest.raises(SettingsError) as refused:
        load({"outbox": [raw] if " " not in raw else raw}, {})
    assert "s3cret" not in str(refused.value)
    assert "outbox: expected" in str(refused.value)


@pytest.mark.parametrize("raw", [7, {"a": 1}, '["s3cret"', [7]])
def test_what_is_no_list_of_texts_is_refused(raw: object) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"outbox": raw}, {})
    assert "s3cret" not in str(refused.value)


def test_no_secret_is_shown() -> None:
    resolved = resolve({"outbox": [SHOP, DEPOT]}, {})
    assert DECLARED["outbox"].shown(resolved.settings.outbox) == "mysql://db.example:3306/shop, depot"
    assert "s3cret" not in f"{resolved.settings} {resolved.settings!r}"


def test_redis_is_named_by_a_url_with_and_without_the_prefix() -> None:
    for variable in ("REDIS_URL", "RESTANTE_REDIS_URL"):
        resolved = resolve({}, {variable: "redis://ada:s3cret@h:1/2"})
        assert DECLARED["redis_url"].shown(resolved.settings.redis_url) == "redis://h:1/2"
        assert "s3cret" not in repr(resolved.settings)


@pytest.mark.parametrize("raw", ["http://s3cret@h", 7, "redis+sentinel://ada:s3cret@h"])
def test_what_is_no_redis_is_refused_without_repeating_it(raw: object) -> None:
    with pytest.raises(SettingsError) as refused:
        load({"redis_url": raw}, {})
    assert "s3cret" not in str(refused.value)
    assert "redis_url: expected" in str(refused.value)
