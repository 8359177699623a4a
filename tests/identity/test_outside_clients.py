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
from restante.events import clients
from restante.events.clients import Registration
from restante.identity.client_tokens import ClientTokens
from restante.identity.issuers import OutsideIssuer, OutsideIssuers
from restante.identity.outside_clients import OutsideClients
from tests.events.keys import jwks, private_key, public_pem

ISSUER, AUDIENCE = "https://as.example", "https://bank.example"
THUMBPRINT = "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"


@pytest.fixture
def tokens(database: Database, tmp_path: Path) -> ClientTokens:
    path = tmp_path / "as.json"
    path.write_text(json.dumps(jwks("rsa-as", "ec-as")))
    issuers = OutsideIssuers((OutsideIssuer(ISSUER, str(path), AUDIENCE, ("PS256", "ES256")),))
    database.write_now(clients.add, Registration("n", "client_secret_basic", "tpp", scope="eventpolling ssf.read"))
    return ClientTokens(database, outside=OutsideClients(database, issuers))


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
async def test_an_outside_token_names_our_client(tokens: ClientTokens, key: str, alg: str) -> None:
    given = token(key, alg)
    caller = await tokens.verify(given, None)
    assert (caller.client_id, caller.thumbprint) == ("tpp", None)
    assert caller.scopes == {"eventpolling"}, "what the client may not have, the token cannot give"
    assert tokens.cached(given.encode(), time.time()) == caller


@pytest.mark.parametrize("header", [{"typ": "JWT"}, {"typ": "application/at+jwt"}, {"typ": "AT+JWT"}])
async def test_types_of_access_tokens(tokens: ClientTokens, header: dict[str, Any]) -> None:
    await tokens.verify(token(header=header), None)


async def test_scopes_as_a_list(tokens: ClientTokens) -> None:
    caller = await tokens.verify(token(scope=["ssf.read", "eventpolling"]), None)
    assert caller.scopes == {"eventpolling", "ssf.read"}
    assert (await tokens.verify(token(scope=None), None)).scopes == frozenset()


async def test_a_binding_is_enforced(tokens: ClientTokens) -> None:
    bound = token(cnf={"x5t#S256": THUMBPRINT})
    assert (await tokens.verify(bound, THUMBPRINT)).thumbprint == THUMBPRINT
    for other in (None, "", THUMBPRINT[::-1]):
        with pytest.raises(NotAuthenticated, match="another certificate"):
            await tokens.verify(bound, other)


async def test_where_tokens_must_be_bound(database: Database, tokens: ClientTokens) -> None:
    strict = ClientTokens(database, outside=tokens._outside, is_binding_required=True)
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
    "another's key": lambda: token("ec-1", header={"kid": "ec-as"}),
    "an algorithm not configured": lambda: token("rsa-as", "RS256"),
    "bound by a key": lambda: token(cnf={"jkt": "x"}),
    "bound twice": lambda: token(cnf={"x5t#S256": THUMBPRINT, "jkt": "x"}),
    "bound to nothing": lambda: token(cnf={"x5t#S256": ""}),
    "nonsense": lambda: "a.b.c",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_does_not_count(tokens: ClientTokens, name: str) -> None:
    with pytest.raises(NotAuthenticated):
        await tokens.verify(REFUSED[name](), THUMBPRINT)
    assert tokens.cached_count == 0


async def test_the_public_key_is_no_secret_to_sign_with(tokens: ClientTokens) -> None:
    _, claims, _ = token().split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"rsa-as"}').decode().rstrip("=")
    mac = hmac.new(public_pem("rsa-as"), f"{header}.{claims}".encode(), hashlib.sha256).digest()
    forged = f"{header}.{claims}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    with pytest.raises(NotAuthenticated, match="signature"):
        await tokens.verify(forged, None)


async def test_a_suspended_client_is_refused(database: Database, tokens: ClientTokens) -> None:
    database.write_now(clients.suspend, "tpp", "me")
    with pytest.raises(NotAuthenticated, match="suspended"):
        await tokens.verify(token(), None)


async def test_where_no_outside_server_is_trusted_nothing_is_looked_at(database: Database) -> None:
    with pytest.raises(NotAuthenticated, match="not known"):
        await ClientTokens(database).verify(token(), None)
