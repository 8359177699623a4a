import pytest

from restante.commands.sites import collectors
from restante.core.errors import NotAuthenticated
from restante.database.clocks.clock import DatabaseClock
from restante.database.database import Database
from restante.identity import revocation_counter
from restante.identity.clients import collector_tokens
from restante.identity.clients.collector_tokens import CACHE_SECONDS, CollectorTokens
from restante.server.config.settings import Settings
from restante.server.identity_component import IdentityComponent
from tests.commands.edge_fixture import ACTOR, Collector, CommandsHarness
from tests.components import handle


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def harness(database: Database) -> CommandsHarness:
    return CommandsHarness(database)


@pytest.fixture
def collector(harness: CommandsHarness) -> Collector:
    return harness.add_collector(harness.add_site())


async def test_token_identifies_its_collector(database: Database, collector: Collector) -> None:
    tokens = CollectorTokens(database)
    assert (await tokens.verify(collector.token))._replace(token_hash=None) == collector.caller


@pytest.mark.parametrize("token", ["", "ed_", "ed_wrong", "rk_x", "x" * 10_000, "ed_" + "x" * 10_000, "ed_\ud800"])
async def test_other_text_is_refused(database: Database, collector: Collector, token: str) -> None:
    with pytest.raises(NotAuthenticated):
        await CollectorTokens(database).verify(token)


async def test_verified_token_is_cached_for_a_limited_time(database: Database, collector: Collector) -> None:
    clock = Clock()
    tokens = CollectorTokens(database, clock=clock)
    raw = collector.token.encode()
    assert tokens.cached(raw, clock.now) is None
    verified = await tokens.verify(collector.token)
    assert tokens.cached(raw, clock.now + CACHE_SECONDS - 1) == verified
    assert tokens.cached(raw, clock.now + CACHE_SECONDS) is None


async def test_token_of_revoked_collector_is_refused(harness: CommandsHarness, collector: Collector) -> None:
    database = harness.database
    identity = IdentityComponent(database, harness.master_key, Settings(), DatabaseClock(), is_binding_required=False)
    tokens = identity.collector_tokens
    verified = await tokens.verify(collector.token)
    assert tokens.cached(collector.token.encode(), 0.0) == verified
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    database.write_now(collectors.revoke, harness.trail, collector.caller.device_id, ACTOR)
    handle(identity, *commit_events)
    assert tokens.cached(collector.token.encode(), 0.0) is None
    with pytest.raises(NotAuthenticated):
        await tokens.verify(collector.token)


async def test_revocation_by_another_process_empties_the_cache(database: Database, collector: Collector) -> None:
    tokens = CollectorTokens(database)
    await tokens.catch_up()
    await tokens.verify(collector.token)
    await tokens.catch_up()
    assert tokens.cached_count == 1
    database.write_now(revocation_counter.increment)
    await tokens.catch_up()
    assert tokens.cached_count == 0


async def test_lookup_begun_before_a_revocation_is_not_cached(database: Database, collector: Collector) -> None:
    tokens = CollectorTokens(database)
    verifying = tokens.verify(collector.token)
    verifying.send(None)
    tokens.forget_all()
    verifying.close()
    assert tokens.cached_count == 0


async def test_cache_size_is_bounded(harness: CommandsHarness) -> None:
    tokens = CollectorTokens(harness.database, entries_max=2)
    site = harness.add_site()
    for _ in range(5):
        await tokens.verify(harness.add_collector(site).token)
    assert tokens.cached_count <= 2
    none = CollectorTokens(harness.database, entries_max=0)
    await none.verify(harness.add_collector(site).token)
    assert none.cached_count == 0


def test_new_tokens_are_unique_and_have_the_prefix() -> None:
    assert collector_tokens.make().startswith("ed_")
    assert collector_tokens.make() != collector_tokens.make()
