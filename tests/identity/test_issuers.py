import asyncio
import threading
from collections.abc import Iterable

import pytest
from joserfc.jwk import ECKey, Key

from restante.identity.issuers import KEYS_OLD_SECONDS, REFETCH_SECONDS_MIN, OutsideIssuer, OutsideIssuers

ISSUER = "https://issuer.example"
KEY = ECKey.generate_key("P-256")


class Source:
    """An issuer's keys as they stand, and how often they were asked for."""

    def __init__(self, *kids: str) -> None:
        self.kids: Iterable[str] = kids
        self.fetches = 0
        self.is_down = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def load(self, source: str) -> dict[str, Key]:
        assert source == "keys.json"
        self.fetches += 1
        assert self.may_answer.wait(5)
        if self.is_down:
            raise OSError("down")
        return dict.fromkeys(self.kids, KEY)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def issuers_of(source: Source, clock: Clock) -> OutsideIssuers:
    return OutsideIssuers((OutsideIssuer(ISSUER, "keys.json", None, ("ES256",)),), load=source.load, clock=clock)


async def settled() -> None:
    """Until fetches begun in the background have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*(task for task in others if task is not None))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS384", "HS512", "ES256K", "", "es256"])
def test_only_asymmetric_algorithms_are_configurable(algorithm: str) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        OutsideIssuer(ISSUER, "keys.json", None, ("ES256", algorithm))


def test_no_algorithm_at_all() -> None:
    with pytest.raises(ValueError, match="algorithms"):
        OutsideIssuer(ISSUER, "keys.json", None, ())


@pytest.mark.parametrize("jwks", ["http://issuer.example/keys", "http://127.0.0.1.example/", "ftp://x/y", "file:///x"])
def test_keys_do_not_come_over_an_open_wire(jwks: str) -> None:
    with pytest.raises(ValueError, match="jwks"):
        OutsideIssuer(ISSUER, jwks, None, ("ES256",))


@pytest.mark.parametrize(
    "jwks", ["https://issuer.example/keys", "http://127.0.0.1:1/", "http://[::1]:1/", "/etc/keys.json"]
)
def test_where_keys_may_come_from(jwks: str) -> None:
    OutsideIssuer(ISSUER, jwks, None, ("RS256", "EdDSA"))


def test_an_issuer_is_configured_once() -> None:
    issuer = OutsideIssuer(ISSUER, "keys.json", None, ("ES256",))
    with pytest.raises(ValueError, match="twice"):
        OutsideIssuers((issuer, issuer))


async def test_keys_are_fetched_once_and_kept() -> None:
    source = Source("a", "b")
    issuers = issuers_of(source, Clock())
    assert issuers.find(ISSUER) is not None
    assert issuers.find("https://stranger.example") is None
    assert await issuers.key(ISSUER, "a") is KEY
    assert await issuers.key(ISSUER, "b") is KEY
    assert source.fetches == 1


async def test_many_that_ask_at_once_wait_for_one_fetch() -> None:
    source = Source("a")
    issuers = issuers_of(source, Clock())
    assert await asyncio.gather(*(issuers.key(ISSUER, "a") for _ in range(20))) == [KEY] * 20
    assert source.fetches == 1


async def test_unknown_kids_are_not_a_flood_of_fetches() -> None:
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


async def test_a_failing_fetch_keeps_the_old_keys_and_is_limited_too() -> None:
    source, clock = Source("a"), Clock()
    issuers = issuers_of(source, clock)
    await issuers.key(ISSUER, "a")
    source.is_down = True
    clock.now += REFETCH_SECONDS_MIN
    assert await issuers.key(ISSUER, "new") is None
    assert await issuers.key(ISSUER, "new") is None
    assert await issuers.key(ISSUER, "a") is KEY
    assert source.fetches == 2


async def test_a_key_that_was_withdrawn_is_forgotten_without_making_anybody_wait() -> None:
    source, clock = Source("a", "b"), Clock()
    issuers = issuers_of(source, clock)
    await issuers.key(ISSUER, "a")
    source.kids = ("b",)
    source.may_answer.clear()
    clock.now += KEYS_OLD_SECONDS
    assert await issuers.key(ISSUER, "a") is KEY
    source.may_answer.set()
    await settled()
    assert await issuers.key(ISSUER, "a") is None
    assert await issuers.key(ISSUER, "b") is KEY
