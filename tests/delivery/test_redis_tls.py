"""TLS to real Redis servers: whose certificates are taken, alone, in a cluster, and found by Sentinel."""

import asyncio
from pathlib import Path

import pytest

from restante.delivery.redis_address import parse_redis_url
from restante.delivery.redis_connection import RedisAway
from restante.delivery.redis_servers import RedisServers
from restante.delivery.redis_tls import RedisTls, RedisTlsError
from tests.pki import pki
from tests.services.redis import PASSWORD, QUOTED_PASSWORD, running_cluster, running_redis, running_sentinel, until

OURS = f"ssl_ca_certs={pki().authority.certificate}"
FOREIGN = f"ssl_ca_certs={pki().foreign_authority.certificate}"


async def masters_at(url: str) -> int:
    return await RedisServers(parse_redis_url(url)).look()


async def refusal_at(url: str) -> str:
    with pytest.raises(RedisAway) as away:
        await masters_at(url)
    assert PASSWORD not in str(away.value)
    return str(away.value)


async def test_a_certificate_of_our_authority_is_taken_and_no_other() -> None:
    with running_redis(password=PASSWORD, tls=pki().server) as server:
        assert await masters_at(f"{server.url}?{OURS}") == 1
        assert "not to be trusted: " in await refusal_at(f"{server.url}?{FOREIGN}")
        # Whom the system trusts has not made it, either.
        assert "not to be trusted: " in await refusal_at(server.url)
        # And who speaks no TLS gets nowhere.
        await refusal_at(f"redis://:{QUOTED_PASSWORD}@127.0.0.1:{server.port}")


async def test_the_name_must_be_the_servers_unless_told_otherwise() -> None:
    with running_redis(tls=pki().issue("/CN=redis", names="DNS:redis.example.com")) as server:
        refused = await refusal_at(f"{server.url}?{OURS}")
        assert "not valid for '127.0.0.1'" in refused
        assert await masters_at(f"{server.url}?{OURS}&ssl_check_hostname=no") == 1
        assert "not to be trusted" in await refusal_at(f"{server.url}?{FOREIGN}&ssl_check_hostname=no")


async def test_a_certificate_of_our_own_is_shown_where_one_is_asked_for() -> None:
    with running_redis(tls=pki().server) as server:
        server.ask("CONFIG", "SET", "tls-auth-clients", "yes")
        await refusal_at(f"{server.url}?{OURS}")
        own = f"ssl_certfile={pki().tpp.certificate}&ssl_keyfile={pki().tpp.key}"
        assert await masters_at(f"{server.url}?{OURS}&{own}") == 1


async def test_a_server_without_tls_is_none_with_it() -> None:
    with running_redis() as server:
        await refusal_at(f"rediss://127.0.0.1:{server.port}?{OURS}")


async def test_every_master_of_a_cluster_is_spoken_to_with_tls() -> None:
    with running_cluster(tls=pki().server) as servers:
        url = f"rediss+cluster://127.0.0.1:{servers[0].port}"
        assert await masters_at(f"{url}?{OURS}") == 3
        assert "not to be trusted" in await refusal_at(f"{url}?{FOREIGN}")


async def test_sentinel_and_master_are_spoken_to_with_tls() -> None:
    with running_sentinel(tls=pki().server) as (_, _, sentinel):
        url = f"rediss+sentinel://127.0.0.1:{sentinel.port}/updates"
        assert await masters_at(f"{url}?{OURS}") == 1
        assert "not to be trusted" in await refusal_at(f"{url}?{FOREIGN}")


async def test_it_comes_up_when_the_file_is_put_right(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    with running_redis(tls=pki().server) as server:
        servers = RedisServers(parse_redis_url(f"{server.url}?ssl_ca_certs={authority}"))
        task = asyncio.ensure_future(servers.run())
        try:
            await until(lambda: str(authority) in str(servers.problem))
            authority.write_bytes(pki().authority.certificate.read_bytes())
            await until(lambda: servers.is_up)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for path, why in ((tmp_path / "absent.pem", "No such file"), (empty, "not valid PEM")):
        for tls in (RedisTls(authority=str(path)), RedisTls(certificate=str(path), key=str(path))):
            with pytest.raises(RedisTlsError) as refused:
                tls.context()
            assert str(path) in str(refused.value)
            assert why in str(refused.value)
