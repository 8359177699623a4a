"""TLS to real Redis servers: which certificates are trusted, for one server, a cluster, and Sentinel."""

import asyncio
from pathlib import Path

import pytest

from restante.delivery.redis.redis_address import parse_redis_url
from restante.delivery.redis.redis_connection import RedisUnavailable
from restante.delivery.redis.redis_servers import RedisServers
from restante.delivery.redis.redis_tls import RedisTls, RedisTlsError
from tests.pki import pki
from tests.services.redis import PASSWORD, QUOTED_PASSWORD, running_cluster, running_redis, running_sentinel, until

OURS = f"ssl_ca_certs={pki().authority.certificate}"
FOREIGN = f"ssl_ca_certs={pki().foreign_authority.certificate}"


async def masters_at(url: str) -> int:
    return await RedisServers(parse_redis_url(url)).probe()


async def error_at(url: str) -> str:
    with pytest.raises(RedisUnavailable) as raised:
        await masters_at(url)
    assert PASSWORD not in str(raised.value)
    return str(raised.value)


async def test_only_certificates_of_the_authority_are_trusted() -> None:
    with running_redis(password=PASSWORD, tls=pki().server) as server:
        assert await masters_at(f"{server.url}?{OURS}") == 1
        assert "not trusted: " in await error_at(f"{server.url}?{FOREIGN}")
        # It is not signed by an authority of the system either.
        assert "not trusted: " in await error_at(server.url)
        # A connection without TLS fails.
        await error_at(f"redis://:{QUOTED_PASSWORD}@127.0.0.1:{server.port}")


async def test_host_name_is_verified_unless_disabled() -> None:
    with running_redis(tls=pki().issue("/CN=redis", names="DNS:redis.example.com")) as server:
        refused = await error_at(f"{server.url}?{OURS}")
        assert "not valid for '127.0.0.1'" in refused
        assert await masters_at(f"{server.url}?{OURS}&ssl_check_hostname=no") == 1
        assert "not trusted" in await error_at(f"{server.url}?{FOREIGN}&ssl_check_hostname=no")


async def test_client_certificate_is_presented() -> None:
    with running_redis(tls=pki().server) as server:
        server.execute("CONFIG", "SET", "tls-auth-clients", "yes")
        await error_at(f"{server.url}?{OURS}")
        own = f"ssl_certfile={pki().tpp.certificate}&ssl_keyfile={pki().tpp.key}"
        assert await masters_at(f"{server.url}?{OURS}&{own}") == 1


async def test_server_without_tls_is_refused() -> None:
    with running_redis() as server:
        await error_at(f"rediss://127.0.0.1:{server.port}?{OURS}")


async def test_tls_is_used_for_every_master_of_a_cluster() -> None:
    with running_cluster(tls=pki().server) as servers:
        url = f"rediss+cluster://127.0.0.1:{servers[0].port}"
        assert await masters_at(f"{url}?{OURS}") == 3
        assert "not trusted" in await error_at(f"{url}?{FOREIGN}")


async def test_tls_is_used_for_sentinel_and_master() -> None:
    with running_sentinel(tls=pki().server) as (_, _, sentinel):
        url = f"rediss+sentinel://127.0.0.1:{sentinel.port}/updates"
        assert await masters_at(f"{url}?{OURS}") == 1
        assert "not trusted" in await error_at(f"{url}?{FOREIGN}")


async def test_servers_come_up_when_the_certificate_file_is_corrected(tmp_path: Path) -> None:
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


def test_error_names_the_unusable_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for path, why in ((tmp_path / "absent.pem", "No such file"), (empty, "not valid PEM")):
        for tls in (RedisTls(authority=str(path)), RedisTls(certificate=str(path), key=str(path))):
            with pytest.raises(RedisTlsError) as refused:
                tls.context()
            assert str(path) in str(refused.value)
            assert why in str(refused.value)
