import pytest

from restante.delivery.redis.redis_address import parse_redis_url
from restante.delivery.redis.redis_tls import RedisTls


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "rest"),
    [
        ("redis://h", "single", (("h", 6379),), (False, "", 0)),
        ("rediss://[::1]:7000/3", "single", (("::1", 7000),), (True, "", 3)),
        ("redis+cluster://a,b:7001", "cluster", (("a", 6379), ("b", 7001)), (False, "", 0)),
        ("rediss+sentinel://a,b:5/updates/2", "sentinel", (("a", 26379), ("b", 5)), (True, "updates", 2)),
    ],
)
def test_every_form_of_url_is_parsed(url: str, kind: str, hosts: object, rest: object) -> None:
    address = parse_redis_url(url)
    assert (address.kind, address.hosts) == (kind, hosts)
    assert (address.tls is not None, address.service, address.database) == rest


def test_user_and_password_are_unquoted_and_not_shown() -> None:
    address = parse_redis_url("redis://ada:s3%2Fcr%40t@h:1/2")
    assert (address.username, address.password) == ("ada", "s3/cr@t")
    assert "s3/cr@t" not in f"{address} {address!r}"
    assert str(address) == "redis://h:1/2"
    assert parse_redis_url("redis://:s3cret@h").password == "s3cret"
    assert str(parse_redis_url("redis+sentinel://ada:s3cret@[::1],b/updates/3")) == (
        "redis+sentinel://[::1]:26379,b:26379/updates/3"
    )


def test_tls_files_are_parsed() -> None:
    address = parse_redis_url("rediss+cluster://:s3cret@a,b?ssl_ca_certs=/x%20y/ca.pem&ssl_check_hostname=no")
    assert address.tls == RedisTls("/x y/ca.pem", None, None, False)
    address = parse_redis_url("rediss://h/2?ssl_certfile=c.pem&ssl_keyfile=k.pem")
    assert (address.tls, address.database) == (RedisTls(None, "c.pem", "k.pem", True), 2)
    assert str(address) == "rediss://h:6379/2"
    assert parse_redis_url("rediss://h").tls == RedisTls()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h",
        "http://s3cret@h",
        "redis://",
        "redis://s3cret:x:y@",
        "redis://a,b",
        "redis://h:0",
        "redis://h:99999",
        "redis://h:s3cret",
        "redis://h/s3cret",
        "redis://h/1/2",
        "redis+cluster://h/1",
        "redis+sentinel://h",
        "redis+sentinel://h/updates/s3cret",
        "redis://h o s t",
        "redis://h/²",
        "redis://h?s3cret",
        "redis://h?ssl_ca_certs=s3cret",
        "rediss://h?s3cret",
        "rediss://h?s3cret=1",
        "rediss://h?ssl_ca_certs=",
        "rediss://h?ssl_ca_certs=a&ssl_ca_certs=b",
        "rediss://h?ssl_certfile=s3cret",
        "rediss://h?ssl_check_hostname=s3cret",
        "rediss://h#s3cret",
    ],
)
def test_invalid_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"Redis|hosts|service") as refused:
        parse_redis_url(url)
    assert "s3cret" not in str(refused.value)
