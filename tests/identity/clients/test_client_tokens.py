import pytest

from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import revocation_counter
from restante.identity.clients import client_tokens
from restante.identity.clients.client_tokens import ClientTokens
from tests.conftest import ManualClock

LIFE_SECONDS = 600
THUMBPRINT = "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"

_ADD = Query(
    "add_client",
    "INSERT INTO event_clients (client_id, name, token_endpoint_auth_method, scope, set_signing_alg, created_at)"
    " VALUES (:client_id, 'a bank app', 'client_secret_basic', 'eventpolling', 'PS256', :now_ms) RETURNING id",
)
_SUSPEND = Query("suspend", "UPDATE event_clients SET suspended_at = :now_ms WHERE id = :id")


def add_client(conn: Connection, client_id: str = "tpp") -> int:
    row = conn.one(_ADD, client_id=client_id, now_ms=conn.now_ms)
    assert row is not None
    return int(row["id"])


@pytest.fixture
def client(database: Database) -> int:
    return database.write_now(add_client)


def issued(database: Database, client: int, thumbprint: str | None = None) -> str:
    return database.write_now(client_tokens.issue, client, "eventpolling other", thumbprint, LIFE_SECONDS)


async def test_token_identifies_its_client(database: Database, client: int) -> None:
    caller = await ClientTokens(database).verify(issued(database, client), None)
    assert (caller.id, caller.client_id) == (client, "tpp")
    assert caller.scopes == {"eventpolling", "other"}


@pytest.mark.parametrize("token", ["", "et_", "et_wrong", "ed_x", "et_" + "x" * 10_000, "et_\ud800"])
async def test_other_text_is_refused(database: Database, client: int, token: str) -> None:
    with pytest.raises(NotAuthenticated):
        await ClientTokens(database).verify(token, None)


async def test_bound_token_is_refused_with_another_certificate(database: Database, client: int) -> None:
    tokens = ClientTokens(database)
    token = issued(database, client, THUMBPRINT)
    assert (await tokens.verify(token, THUMBPRINT)).thumbprint == THUMBPRINT
    for other in (None, "", THUMBPRINT[:-1] + "X"):
        with pytest.raises(NotAuthenticated):
            await tokens.verify(token, other)


async def test_expired_token_is_refused(database: Database, client: int, clock: ManualClock) -> None:
    token = issued(database, client)
    clock.advance(LIFE_SECONDS)
    with pytest.raises(NotAuthenticated):
        await ClientTokens(database).verify(token, None)


async def test_cached_token_expires(database: Database, client: int) -> None:
    tokens = ClientTokens(database, clock=lambda: 0.0)
    token = issued(database, client)
    caller = await tokens.verify(token, None)
    assert tokens.cached(token.encode(), client_tokens.CACHE_SECONDS - 1) == caller
    assert tokens.cached(token.encode(), client_tokens.CACHE_SECONDS) is None
    late = ClientTokens(database, clock=lambda: caller.expires_at - 1)
    await late.verify(token, None)
    assert late.cached(token.encode(), caller.expires_at) is None


async def test_token_of_suspended_client_is_refused(database: Database, client: int) -> None:
    token = issued(database, client)
    database.write_now(lambda conn: conn.run(_SUSPEND, id=client, now_ms=conn.now_ms))
    with pytest.raises(NotAuthenticated):
        await ClientTokens(database).verify(token, None)


async def test_end_all_ends_the_tokens_of_one_client(database: Database, client: int) -> None:
    other = database.write_now(add_client, "other")
    tokens = [issued(database, client), issued(database, client)]
    kept = issued(database, other)
    assert database.write_now(client_tokens.end_all, client) == len(tokens)
    assert [database.read_now(client_tokens.find, token) for token in tokens] == [None, None]
    assert database.read_now(client_tokens.find, kept) is not None


async def test_revocation_by_another_process_empties_the_cache(database: Database, client: int) -> None:
    tokens = ClientTokens(database)
    await tokens.catch_up()
    await tokens.verify(issued(database, client), None)
    await tokens.catch_up()
    assert tokens.cached_count == 1
    database.write_now(revocation_counter.increment)
    await tokens.catch_up()
    assert tokens.cached_count == 0


def test_expired_tokens_are_deleted(database: Database, client: int, clock: ManualClock) -> None:
    issued(database, client)
    clock.advance(1)
    kept = issued(database, client)
    clock.advance(LIFE_SECONDS - 1)
    assert database.write_now(client_tokens.delete_expired) == 1
    assert database.read_now(client_tokens.find, kept) is not None


async def test_unbound_token_is_refused_if_binding_is_required(database: Database, client: int) -> None:
    tokens = ClientTokens(database, is_binding_required=True)
    with pytest.raises(NotAuthenticated, match="bound to no certificate"):
        await tokens.verify(issued(database, client), THUMBPRINT)
    assert tokens.cached_count == 0
    assert (await tokens.verify(issued(database, client, THUMBPRINT), THUMBPRINT)).client_id == "tpp"
