import dataclasses
from typing import Any

import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.database.queries import Query
from restante.events.clients import clients
from restante.events.clients.authentication import client_keys
from restante.events.clients.clients import ClientFilter, ClientRegistration, RegisteredClient
from restante.events.publishing import event_audit
from restante.identity import revocation_counter, secret_tokens
from restante.identity.callers import ClientRevoked
from restante.identity.clients import client_tokens
from tests.conftest import START_MS
from tests.events.client_keys import jwks
from tests.pki import TPP_DN

BY_SECRET = ClientRegistration("a bank app", "client_secret_basic", "tpp")
BY_KEY = ClientRegistration("a bank app", "private_key_jwt", "tpp", jwks=jwks("ec-1"))
BY_CERTIFICATE = ClientRegistration("a bank app", "tls_client_auth", "tpp", subject_dn=TPP_DN)

_ROWS = Query("rows", "SELECT * FROM event_clients")


def collect_commit_events(database: Database) -> list[object]:
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    return commit_events


def test_secret_is_shown_once_and_stored_as_digest(database: Database) -> None:
    added = database.write_now(clients.add, BY_SECRET)
    assert added.client_secret is not None
    found = database.read_now(clients.get, "tpp")
    assert found.credentials.secret_hash == secret_tokens.digest(added.client_secret)
    rows = database.read_now(lambda conn: [dict(row) for row in conn.all(_ROWS)])
    assert added.client_secret not in str(rows)


def test_client_is_stored_as_registered(database: Database) -> None:
    registration = dataclasses.replace(BY_KEY, scope="ssf.read eventpolling", set_signing_alg="ES256")
    assert database.write_now(clients.add, registration) == RegisteredClient("tpp", None)
    found = database.read_now(clients.get, "tpp")
    assert (found.name, found.scope, found.set_signing_alg) == ("a bank app", "eventpolling ssf.read", "ES256")
    assert (found.created_at, found.suspended_at, found.last_poll_at) == (START_MS, None, None)
    assert found.credentials.jwks is not None
    assert found.scopes == {"eventpolling", "ssf.read"}


def test_missing_client_id_is_generated(database: Database) -> None:
    generated = [
        database.write_now(clients.add, dataclasses.replace(BY_CERTIFICATE, client_id=None)).client_id for _ in range(2)
    ]
    assert generated[0] != generated[1]
    assert database.read_now(clients.count) == 2


def test_existing_client_id_is_refused(database: Database) -> None:
    database.write_now(clients.add, BY_SECRET)
    with pytest.raises(Conflict, match="tpp"):
        database.write_now(clients.add, BY_KEY)


@pytest.mark.parametrize(
    ("registration", "changed", "field"),
    [
        (BY_SECRET, {"client_id": ""}, "client_id"),
        (BY_SECRET, {"client_id": "a" * 129}, "client_id"),
        (BY_SECRET, {"client_id": "a b"}, "client_id"),
        (BY_SECRET, {"client_id": "a:b"}, "client_id"),
        (BY_SECRET, {"client_id": "é"}, "client_id"),
        (BY_SECRET, {"client_id": "-a"}, "client_id"),
        (BY_SECRET, {"name": ""}, "name"),
        (BY_SECRET, {"name": "  "}, "name"),
        (BY_SECRET, {"name": "a\n"}, "name"),
        (BY_SECRET, {"name": "a" * 201}, "name"),
        (BY_SECRET, {"scope": ""}, "scope"),
        (BY_SECRET, {"scope": "other"}, "scope"),
        (BY_SECRET, {"scope": "eventpolling  ssf.read"}, "scope"),
        (BY_SECRET, {"jwks": {"keys": []}}, "jwks.keys"),
        (BY_SECRET, {"subject_dn": TPP_DN}, "tls_client_auth_subject_dn"),
        (BY_KEY, {"jwks": None}, "jwks.keys"),
        (BY_KEY, {"subject_dn": TPP_DN}, "tls_client_auth_subject_dn"),
        (BY_CERTIFICATE, {"subject_dn": None}, "tls_client_auth_subject_dn"),
        (BY_CERTIFICATE, {"subject_dn": "nonsense"}, "tls_client_auth_subject_dn"),
        (BY_CERTIFICATE, {"jwks": {"keys": []}}, "jwks.keys"),
    ],
)
def test_invalid_registration_names_its_field(
    database: Database, registration: ClientRegistration, changed: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as raised:
        database.write_now(clients.add, dataclasses.replace(registration, **changed))
    assert raised.value.field == field
    assert database.read_now(clients.count) == 0


def test_clients_are_listed_in_pages(database: Database) -> None:
    for n in range(3):
        database.write_now(clients.add, dataclasses.replace(BY_SECRET, client_id=f"tpp-{n}"))
    first = database.read_now(clients.list_page, ClientFilter(), PageRequest(2, 0)).items
    assert [each.client_id for each in first] == ["tpp-0", "tpp-1"]
    rest = database.read_now(clients.list_page, ClientFilter(), PageRequest(2, first[-1].id))
    assert [each.client_id for each in rest.items] == ["tpp-2"]


def test_unknown_client_is_not_found(database: Database) -> None:
    assert database.read_now(clients.find, "nobody") is None
    with pytest.raises(NotFound):
        database.read_now(clients.get, "nobody")
    for change in (clients.suspend, clients.resume):
        with pytest.raises(NotFound):
            database.write_now(change, "nobody", "me")
    with pytest.raises(NotFound):
        database.write_now(clients.rotate, "nobody", None, None, "me")


def test_rotation_ends_every_token(database: Database) -> None:
    old = database.write_now(clients.add, BY_SECRET)
    client = database.read_now(clients.get, "tpp")
    token = database.write_now(client_tokens.issue, client.id, "eventpolling", None, 600)
    before = database.read_now(revocation_counter.current)
    commit_events = collect_commit_events(database)
    new = database.write_now(clients.rotate, "tpp", None, None, "me")
    assert new.client_secret not in (None, old.client_secret)
    assert database.read_now(client_tokens.find, token) is None
    assert ClientRevoked(client.id) in commit_events
    assert database.read_now(revocation_counter.current) > before


def test_rotation_replaces_keys_and_subject(database: Database) -> None:
    database.write_now(clients.add, BY_KEY)
    assert database.write_now(clients.rotate, "tpp", jwks("ed-1"), None, "me") == RegisteredClient("tpp", None)
    assert "ed-1" in (database.read_now(clients.get, "tpp").credentials.jwks or "")
    database.write_now(clients.add, dataclasses.replace(BY_CERTIFICATE, client_id="tls"))
    database.write_now(clients.rotate, "tls", None, "CN=new", "me")
    assert database.read_now(clients.get, "tls").credentials.subject_dn == "CN=new"


@pytest.mark.parametrize("registration", [BY_CERTIFICATE, BY_SECRET])
def test_keys_for_message_signatures_stay_until_they_are_replaced(
    database: Database, registration: ClientRegistration
) -> None:
    database.write_now(clients.add, dataclasses.replace(registration, jwks=jwks("rsa-1")))

    def kids() -> list[str]:
        return client_keys.kids(database.read_now(clients.get, "tpp").credentials.jwks)

    assert kids() == ["rsa-1"]
    database.write_now(clients.rotate, "tpp", None, "CN=new" if registration is BY_CERTIFICATE else None, "me")
    assert kids() == ["rsa-1"]
    before = database.read_now(clients.get, "tpp").credentials
    database.write_now(clients.rotate, "tpp", jwks("rsa-2"), None, "me")
    assert kids() == ["rsa-2"]
    assert database.read_now(clients.get, "tpp").credentials.subject_dn == before.subject_dn


@pytest.mark.parametrize(
    ("registration", "jwks_given", "subject"),
    [(BY_KEY, None, None), (BY_KEY, None, "CN=a"), (BY_CERTIFICATE, None, None), (BY_SECRET, {}, None)],
)
def test_invalid_rotation_changes_nothing(
    database: Database, registration: ClientRegistration, jwks_given: Any, subject: str | None
) -> None:
    database.write_now(clients.add, registration)
    before = database.read_now(clients.get, "tpp")
    with pytest.raises(BadInput):
        database.write_now(clients.rotate, "tpp", jwks_given, subject, "me")
    assert database.read_now(clients.get, "tpp") == before


def test_client_is_suspended_and_resumed(database: Database) -> None:
    database.write_now(clients.add, BY_SECRET)
    client = database.read_now(clients.get, "tpp")
    token = database.write_now(client_tokens.issue, client.id, "eventpolling", None, 600)
    commit_events = collect_commit_events(database)
    assert database.write_now(clients.suspend, "tpp", "me").suspended_at == START_MS
    assert commit_events == [ClientRevoked(client.id)]
    assert database.write_now(clients.resume, "tpp", "me").suspended_at is None
    assert database.read_now(client_tokens.find, token) is None, "it must get a new token"


def test_actions_are_recorded_without_secrets(database: Database) -> None:
    added = database.write_now(clients.add, BY_SECRET, "me")
    rotated = database.write_now(clients.rotate, "tpp", None, None, "you")
    for _ in range(2):
        database.write_now(clients.suspend, "tpp", "they")
    for _ in range(2):
        database.write_now(clients.resume, "tpp", "they")
    page = database.read_now(event_audit.list_page, "tpp", PageRequest(10, 0))
    assert [(each.event, each.actor) for each in reversed(page.items)] == [
        ("client.registered", "me"),
        ("client.rotated", "you"),
        ("client.suspended", "they"),
        ("client.resumed", "they"),
    ]
    assert added.client_secret is not None
    assert rotated.client_secret is not None
    recorded = str(page)
    assert added.client_secret not in recorded
    assert rotated.client_secret not in recorded
