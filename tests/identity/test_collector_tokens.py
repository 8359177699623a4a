import pytest

from restante.commands import collectors
from restante.core.errors import NotAuthenticated
from restante.database.database import Database
from restante.identity import collector_tokens, revisions
from restante.identity.collector_tokens import REMEMBER_SECONDS, CollectorTokens
from tests.commands.field import ACTOR, Field, Hired


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def field(database: Database) -> Field:
    return Field(database)


@pytest.fixture
def hired(field: Field) -> Hired:
    return field.hire(field.add_site())


async def test_a_token_names_its_collector(database: Database, hired: Hired) -> None:
    tokens = CollectorTokens(database)
    assert (await tokens.verify(hired.token))._replace(token_hash=None) == hired.caller


@pytest.mark.parametrize("token", ["", "ed_", "ed_wrong", "rk_x", "x" * 10_000, "ed_" + "x" * 10_000, "ed_\ud800"])
async def test_nothing_else_names_one(database: Database, hired: Hired, token: str) -> None:
    with pytest.raises(NotAuthenticated):
        await CollectorTokens(database).verify(token)


async def test_a_verified_token_is_remembered_for_a_while(database: Database, hired: Hired) -> None:
    clock = Clock()
    tokens = CollectorTokens(database, clock=clock)
    raw = hired.token.encode()
    assert tokens.cached(raw, clock.now) is None
    verified = await tokens.verify(hired.token)
    assert tokens.cached(raw, clock.now + REMEMBER_SECONDS - 1) == verified
    assert tokens.cached(raw, clock.now + REMEMBER_SECONDS) is None


async def test_a_revoked_collector_is_forgotten(field: Field, hired: Hired) -> None:
    tokens = field.tokens
    await tokens.verify(hired.token)
    heard: list[object] = []
    field.database.on_commit(heard.extend)
    field.database.write_now(collectors.revoke, field.trail, hired.caller.device_id, ACTOR)
    field.hear(heard)
    assert tokens.cached(hired.token.encode(), 0.0) is None
    with pytest.raises(NotAuthenticated):
        await tokens.verify(hired.token)


async def test_what_another_process_took_away_is_forgotten(database: Database, hired: Hired) -> None:
    tokens = CollectorTokens(database)
    await tokens.catch_up()
    await tokens.verify(hired.token)
    await tokens.catch_up()
    assert tokens.cached_count == 1
    database.write_now(revisions.raise_revision)
    await tokens.catch_up()
    assert tokens.cached_count == 0


async def test_a_look_that_began_before_a_revocation_is_not_remembered(database: Database, hired: Hired) -> None:
    tokens = CollectorTokens(database)
    verifying = tokens.verify(hired.token)
    verifying.send(None)
    tokens.forget_all()
    verifying.close()
    assert tokens.cached_count == 0


async def test_memory_is_bounded(field: Field) -> None:
    tokens = CollectorTokens(field.database, entries_max=2)
    site = field.add_site()
    for _ in range(5):
        await tokens.verify(field.hire(site).token)
    assert tokens.cached_count <= 2
    none = CollectorTokens(field.database, entries_max=0)
    await none.verify(field.hire(site).token)
    assert none.cached_count == 0


def test_a_new_token_has_its_prefix() -> None:
    assert collector_tokens.make().startswith("ed_")
    assert collector_tokens.make() != collector_tokens.make()
