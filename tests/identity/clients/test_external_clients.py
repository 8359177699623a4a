import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from restante.core.errors import NotAuthenticated
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from restante.identity.clients.client_tokens import ClientTokens
from restante.identity.clients.external_clients import ExternalClients
from restante.identity.jwt.issuers import ExternalIssuer, ExternalIssuers
from tests.events.client_keys import jwks, private_key, public_pem

ISSUER, AUDIENCE = "https://as.example", "https://bank.example"
THUMBPRINT = "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"


@pytest.fixture
def external(database: Database, tmp_path: Path) -> ExternalClients:
    path = tmp_path / "as.json"
    path.write_text(json.dumps(jwks("rsa-as", "ec-as")))
    issuers = ExternalIssuers((ExternalIssuer(ISSUER, str(path), AUDIENCE, ("PS256", "ES256")),))
    database.write_now(
        clients.add, ClientRegistration("n", "client_secret_basic", "tpp", scope="eventpolling ssf.read")
    )
    return ExternalClients(database, issuers)


@pytest.fixture
def tokens(database: Database, external: ExternalClients) -> ClientTokens:
    return ClientTokens(database, external=external)


def token(key: str = "ec-as", alg: str = "ES256", header: dict[str, Any] | None = None, **changed: Any) -> str:
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": time.time() + 60,
        "client_id": "tpp",
        "scope": "eventpolling accounts",
        **changed,
    }
    return jwt.encode(
        _without_none(claims),
        private_key(key),
        alg,
        headers=_without_none({"kid": key, "typ": "at+jwt", **(header or {})}),
    )


def _without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


@pytest.mark.parametrize(("key", "alg"), [("ec-as", "ES256"), ("rsa-as", "PS256")])
async def test_external_token_identifies_a_registered_client(tokens: ClientTokens, key: str, alg: str) -> None:
    sent = token(key, alg)
    caller = await tokens.verify(sent, None)
    assert (caller.client_id, caller.thumbprint) == ("tpp", None)
    assert caller.scopes == {"eventpolling"}, "a token must not grant more than its client has"
    assert tokens.cached(sent.encode(), time.time()) == caller


@pytest.mark.parametrize("header", [{"typ": "JWT"}, {"typ": "application/at+jwt"}, {"typ": "AT+JWT"}])
async def test_every_access_token_type_is_accepted(tokens: ClientTokens, header: dict[str, Any]) -> None:
    await tokens.verify(token(header=header), None)


async def test_scopes_may_be_a_list_or_absent(tokens: ClientTokens) -> None:
    caller = await tokens.verify(token(scope=["ssf.read", "eventpolling"]), None)
    assert caller.scopes == {"eventpolling", "ssf.read"}
    assert (await tokens.verify(token(scope=None), None)).scopes == frozenset()


async def test_bound_token_is_refused_with_another_certificate(tokens: ClientTokens) -> None:
    bound = token(cnf={"x5t#S256": THUMBPRINT})
    assert (await tokens.verify(bound, THUMBPRINT)).thumbprint == THUMBPRINT
    for other in (None, "", THUMBPRINT[::-1]):
        with pytest.raises(NotAuthenticated, match="another certificate"):
            await tokens.verify(bound, other)


async def test_unbound_token_is_refused_if_binding_is_required(database: Database, external: ExternalClients) -> None:
    strict = ClientTokens(database, external=external, is_binding_required=True)
    with pytest.raises(NotAuthenticated, match="bound to no certificate"):
        await strict.verify(token(), THUMBPRINT)
    await strict.verify(token(cnf={"x5t#S256": THUMBPRINT}), THUMBPRINT)


REFUSED: dict[str, Any] = {
    "another issuer": lambda: token(iss="https://other.example"),
    "another audience": lambda: token(aud="https://other.example"),
    "no audience": lambda: token(aud=None),
    "expired": lambda: token(exp=time.time() - 1),
    "no expiry": lambda: token(exp=None),
    "not valid yet": lambda: token(nbf=time.time() + 100),
    "no client": lambda: token(client_id=None),
    "an unknown client": lambda: token(client_id="nobody"),
    "a client with a NUL": lambda: token(client_id="a\0"),
    "a client that is no text": lambda: token(client_id=5),
    "another kind of token": lambda: token(header={"typ": "secevent+jwt"}),
    "an unknown key": lambda: token(header={"kid": "other"}),
    "no key": lambda: token(header={"kid": None}),
    "the key of another party": lambda: token("ec-1", header={"kid": "ec-as"}),
    "an algorithm not configured": lambda: token("rsa-as", "RS256"),
    "bound by a key": lambda: token(cnf={"jkt": "x"}),
    "bound twice": lambda: token(cnf={"x5t#S256": THUMBPRINT, "jkt": "x"}),
    "bound to nothing": lambda: token(cnf={"x5t#S256": ""}),
    "not a token": lambda: "a.b.c",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_invalid_token_is_refused_and_not_cached(tokens: ClientTokens, name: str) -> None:
    with pytest.raises(NotAuthenticated):
        await tokens.verify(REFUSED[name](), THUMBPRINT)
    assert tokens.cached_count == 0


async def test_public_key_is_refused_as_hmac_secret(tokens: ClientTokens) -> None:
    _, claims, _ = token().split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"rsa-as"}').decode().rstrip("=")
    mac = hmac.new(public_pem("rsa-as"), f"{header}.{claims}".encode(), hashlib.sha256).digest()
    forged = f"{header}.{claims}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    with pytest.raises(NotAuthenticated, match="signature"):
        await tokens.verify(forged, None)


async def test_token_of_suspended_client_is_refused(database: Database, tokens: ClientTokens) -> None:
    database.write_now(clients.suspend, "tpp", "me")
    with pytest.raises(NotAuthenticated, match="suspended"):
        await tokens.verify(token(), None)


async def test_jwt_is_refused_where_no_external_server_is_trusted(database: Database) -> None:
    with pytest.raises(NotAuthenticated, match="not known"):
        await ClientTokens(database).verify(token(), None)
