import asyncio
import threading
from collections.abc import Iterable

import pytest
from joserfc.jwk import ECKey, Key

from restante.identity.jwt.issuers import KEYS_OLD_SECONDS, REFETCH_SECONDS_MIN, ExternalIssuer, ExternalIssuers

ISSUER = "https://issuer.example"
KEY = ECKey.generate_key("P-256")


class Source:
    """An issuer's keys, and the number of fetches."""

    def __init__(self, *kids: str) -> None:
        self.kids: Iterable[str] = kids
        self.fetches = 0
        self.is_down = False
        self.may_respond = threading.Event()
        self.may_respond.set()

    def load(self, source: str) -> dict[str, Key]:
        assert source == "keys.json"
        self.fetches += 1
        assert self.may_respond.wait(5)
        if self.is_down:
            raise OSError("down")
        return dict.fromkeys(self.kids, KEY)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def issuers_of(source: Source, clock: Clock) -> ExternalIssuers:
    return ExternalIssuers((ExternalIssuer(ISSUER, "keys.json", None, ("ES256",)),), load=source.load, clock=clock)


async def wait_for_fetches() -> None:
    """Wait until the fetches in the background have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*(task for task in others if task is not None))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS384", "HS512", "ES256K", "", "es256"])
def test_only_asymmetric_algorithms_are_configurable(algorithm: str) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        ExternalIssuer(ISSUER, "keys.json", None, ("ES256", algorithm))


def test_issuer_without_algorithms_is_refused() -> None:
    with pytest.raises(ValueError, match="algorithms"):
        ExternalIssuer(ISSUER, "keys.json", None, ())


@pytest.mark.parametrize("jwks", ["http://issuer.example/keys", "http://127.0.0.1.example/", "ftp://x/y", "file:///x"])
def test_unencrypted_key_address_is_refused(jwks: str) -> None:
    with pytest.raises(ValueError, match="jwks"):
        ExternalIssuer(ISSUER, jwks, None, ("ES256",))


@pytest.mark.parametrize(
    "jwks", ["https://issuer.example/keys", "http://127.0.0.1:1/", "http://[::1]:1/", "/etc/keys.json"]
)
def test_https_loopback_and_files_are_accepted(jwks: str) -> None:
    ExternalIssuer(ISSUER, jwks, None, ("RS256", "EdDSA"))


def test_issuer_configured_twice_is_refused() -> None:
    issuer = ExternalIssuer(ISSUER, "keys.json", None, ("ES256",))
    with pytest.raises(ValueError, match="twice"):
        ExternalIssuers((issuer, issuer))


async def test_keys_are_fetched_once_and_cached() -> None:
    source = Source("a", "b")
    issuers = issuers_of(source, Clock())
    assert issuers.find(ISSUER) is not None
    assert issuers.find("https://unknown.example") is None
    assert await issuers.key(ISSUER, "a") is KEY
    assert await issuers.key(ISSUER, "b") is KEY
    assert source.fetches == 1


async def test_concurrent_requests_wait_for_one_fetch() -> None:
    source = Source("a")
    issuers = issuers_of(source, Clock())
    assert await asyncio.gather(*(issuers.key(ISSUER, "a") for _ in range(20))) == [KEY] * 20
    assert source.fetches == 1


async def test_fetches_for_unknown_kids_are_rate_limited() -> None:
    source, clock = Source("a"), Clock()
    issuers = issuers_of(source, clock)
    for n in range(50):
        assert await issuers.key(ISSUER, f"made up {n}") is None
    assert source.fetches == 1
    clock.now += REFETCH_SECONDS_MIN - 0.1
    await issuers.key(ISSUER, "made up")
    assert source.fetches == 1
    clock.now += 0.1
    source.kids = ("a", "new")
    assert await issuers.key(ISSUER, "new") is KEY
    assert source.fetches == 2


async def test_failed_fetch_keeps_the_old_keys_and_is_rate_limited() -> None:
    source, clock = Source("a"), Clock()
    issuers = issuers_of(source, clock)
    await issuers.key(ISSUER, "a")
    source.is_down = True
    clock.now += REFETCH_SECONDS_MIN
    assert await issuers.key(ISSUER, "new") is None
    assert await issuers.key(ISSUER, "new") is None
    assert await issuers.key(ISSUER, "a") is KEY
    assert source.fetches == 2


async def test_withdrawn_key_is_dropped_without_blocking_requests() -> None:
    source, clock = Source("a", "b"), Clock()
    issuers = issuers_of(source, clock)
    await issuers.key(ISSUER, "a")
    source.kids = ("b",)
    source.may_respond.clear()
    clock.now += KEYS_OLD_SECONDS
    assert await issuers.key(ISSUER, "a") is KEY
    source.may_respond.set()
    await wait_for_fetches()
    assert await issuers.key(ISSUER, "a") is None
    assert await issuers.key(ISSUER, "b") is KEY
