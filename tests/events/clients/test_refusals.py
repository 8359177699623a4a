import time

import pytest
import structlog

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.events.clients import clients, refusals
from restante.events.clients.authentication.oauth_errors import InvalidClient
from restante.events.clients.refusals import Refusals, last_refusals
from tests.conftest import ManualClock
from tests.events.client_keys import assertion, assertion_form
from tests.events.token_app import (
    GRANT,
    TOKEN_URL,
    TokenApp,
    add_by_certificate,
    add_by_key,
    add_by_secret,
    basic,
)
from tests.pki import pki


@pytest.fixture
def clock() -> ManualClock:
    """The database clock shows the present, because assertions are made with it."""
    clock = ManualClock()
    clock.now_ms = int(time.time() * 1000)
    return clock


async def reasons(app: TokenApp, client_id: str = "tpp") -> list[str]:
    await app.refusals.write()
    return [each.reason for each in app.database.read_now(last_refusals, client_id)]


async def test_refused_client_leaves_a_log_line_a_count_and_a_row(database: Database) -> None:
    add_by_secret(database)
    app = TokenApp(database)
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            refused = await app.request(GRANT, headers=basic("tpp", "wrong"), address="127.0.0.1")
            assert refused.json()["error"] == "invalid_client"
            assert "secret" not in refused.text
    assert [(line["event"], line["client_id"], line["reason"]) for line in logs] == 2 * [
        ("client refused", "tpp", "secret")
    ]
    assert app.refusals.counts["secret"] == 2
    await app.refusals.write()
    (refusal,) = database.read_now(last_refusals, "tpp")
    assert (refusal.reason, refusal.count, refusal.address) == ("secret", 2, "127.0.0.1")
    assert refusal.detail == "the secret is wrong"
    await app.request(GRANT, headers=basic("tpp", "wrong"))
    await app.refusals.write()
    (refusal,) = database.read_now(last_refusals, "tpp")
    assert refusal.count == 3


async def test_reason_names_what_the_response_does_not_tell(database: Database) -> None:
    add_by_key(database)
    add_by_certificate(database, client_id="by-certificate")
    app = TokenApp(database)
    await app.request(assertion_form("not-a-jwt"))
    await app.request({**GRANT, "client_id": "by-certificate"})
    await app.request({**GRANT, "client_id": "by-certificate"}, certificate=pki().other_tpp)
    await app.request({**GRANT, "client_id": "by-certificate"}, certificate=pki().expired)
    await app.request(assertion_form(assertion("by-certificate", TOKEN_URL)))
    await app.request(assertion_form(assertion("tpp", "https://other.example")))
    once = assertion_form(assertion("tpp", TOKEN_URL))
    assert (await app.request(once)).status_code == 200
    await app.request(once)
    await app.request({**assertion_form(assertion("tpp", TOKEN_URL)), "scope": "unknown"})
    assert set(await reasons(app)) == {"assertion", "assertion_replayed", "scope"}
    expected = {"certificate_missing", "certificate_subject", "certificate_expired", "other_method"}
    assert set(await reasons(app, "by-certificate")) == expected
    database.write_now(clients.suspend, "tpp", "tests")
    await app.request(assertion_form(assertion("tpp", TOKEN_URL)))
    assert "suspended" in await reasons(app)


async def test_unknown_clients_are_counted_and_not_stored(database: Database) -> None:
    app = TokenApp(database)
    for name in ("nobody", "line\nbreak", "x" * 500):
        await app.request(GRANT, headers=basic(name, "wrong"))
    await app.refusals.write()
    assert app.refusals.counts["unknown_client"] == 3
    with pytest.raises(NotFound):
        database.read_now(last_refusals, "nobody")


async def test_rate_limited_sender_is_counted_only(database: Database) -> None:
    app = TokenApp(database, failures_per_minute=1)
    for _ in range(3):
        await app.request(GRANT, headers=basic("nobody", "wrong"))
    with structlog.testing.capture_logs() as logs:
        await app.request(GRANT, headers=basic("nobody", "wrong"))
    assert logs == []
    assert app.refusals.counts["rate_limited"] >= 1


async def test_waiting_refusals_are_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "WAITING_MAX", 1)
    add_by_secret(database, "first")
    add_by_secret(database, "second")
    recorded = Refusals(database)
    for client_id in ("first", "second"):
        recorded.record(client_id, InvalidClient(), None)
    await recorded.write()
    assert len(database.read_now(last_refusals, "first")) == 1
    assert database.read_now(last_refusals, "second") == []


async def test_unavailable_database_does_not_end_the_service(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object) -> None:
        raise DatabaseUnavailable("gone")

    recorded = Refusals(database)
    recorded.record("tpp", InvalidClient(), None)
    monkeypatch.setattr(database, "write", fail)
    await recorded.write()
