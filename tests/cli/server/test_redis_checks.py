"""The doctor checks a real Redis: reachable, accepting the password, with a trusted certificate."""

from restante.delivery.redis.redis_address import parse_redis_url
from restante.server.config.settings import Settings
from restante.server.monitoring.checks import Finding, State, check_redis
from tests.cli.conftest import Restante
from tests.pki import pki
from tests.services.redis import PASSWORD, RedisServer, running_redis


def finding_at(url: str) -> Finding:
    (finding,) = check_redis(Settings(redis_url=parse_redis_url(url)))
    assert PASSWORD not in str(finding)
    return finding


def test_without_redis_there_is_no_finding() -> None:
    assert list(check_redis(Settings())) == []


def test_reachable_redis_is_ok(empty_redis: RedisServer) -> None:
    finding = finding_at(empty_redis.url)
    assert (finding.state, finding.what) == (State.ok, f"redis://127.0.0.1:{empty_redis.port} answers")


def test_refusing_or_unreachable_redis_is_a_problem(empty_redis: RedisServer) -> None:
    finding = finding_at(f"redis://:wr0ng@127.0.0.1:{empty_redis.port}")
    assert (finding.state, "wr0ng" in finding.what) == (State.problem, False)
    assert "refuses" in finding.what
    assert "cannot be reached" in finding_at("redis://127.0.0.1:1").what


def test_untrusted_certificate_is_a_problem(restante: Restante) -> None:
    with running_redis(password=PASSWORD, tls=pki().server) as server:
        right, wrong = (
            f"{server.url}?ssl_ca_certs={each.certificate}" for each in (pki().authority, pki().foreign_authority)
        )
        assert finding_at(right).state is State.ok
        assert "not trusted" in finding_at(wrong).what
        restante.data.mkdir(exist_ok=True)
        (restante.data / "restante.toml").write_text(f'redis_url = "{wrong}"\n')
        result = restante("doctor", "--json")
        assert result.exit_code == 1
        assert "not trusted" in result.stdout
        assert PASSWORD not in result.output
