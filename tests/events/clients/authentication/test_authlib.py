"""Authlib as a client, unchanged and with its defaults: its assertions name no key and are valid for an hour."""

import time
from collections.abc import AsyncIterator

import httpx
import jwt
import pytest
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc.jwk import import_key

from restante.database.database import Database
from tests.events.client_keys import private_key
from tests.events.token_app import TOKEN_URL, TokenApp, add_by_key

METADATA_PATH = "/.well-known/oauth-authorization-server"


def pem(name: str) -> str:
    text: bytes = private_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text.decode()


@pytest.fixture
async def session(database: Database) -> AsyncIterator[AsyncOAuth2Client]:
    # The first key fits the algorithm, too.
    add_by_key(database, "rsa-1", "rsa-2", "ec-1")
    transport = httpx.ASGITransport(TokenApp(database, base_url="https://bank.example").application)
    async with AsyncOAuth2Client(
        "tpp", pem("rsa-2"), token_endpoint_auth_method="private_key_jwt", transport=transport
    ) as client:
        client.register_client_auth_method(PrivateKeyJWT(TOKEN_URL))
        yield client


async def test_authlib_gets_a_token_with_its_defaults(session: AsyncOAuth2Client) -> None:
    token = await session.fetch_token(TOKEN_URL, grant_type="client_credentials", scope="eventpolling")
    assert token["access_token"].startswith("et_")
    assert (token["token_type"], token["expires_in"], token["scope"]) == ("Bearer", 600, "eventpolling")


@pytest.mark.parametrize(("key", "alg"), [("rsa-2", "PS256"), ("ec-1", "ES256")])
async def test_authlib_gets_a_token_with_another_algorithm(session: AsyncOAuth2Client, key: str, alg: str) -> None:
    session.client_secret = import_key(pem(key), "EC" if key == "ec-1" else "RSA")
    session.register_client_auth_method(PrivateKeyJWT(TOKEN_URL, alg=alg))
    assert (await session.fetch_token(TOKEN_URL, grant_type="client_credentials"))["access_token"]


async def test_authlib_with_an_unregistered_key_is_refused(session: AsyncOAuth2Client) -> None:
    session.client_secret = pem("rsa-3")
    with pytest.raises(OAuthError, match="invalid_client"):
        await session.fetch_token(TOKEN_URL, grant_type="client_credentials")


async def test_assertion_of_authlib_has_the_form_that_these_tests_are_about(session: AsyncOAuth2Client) -> None:
    text = PrivateKeyJWT(TOKEN_URL).sign(session.client_auth(None), TOKEN_URL)
    claims = jwt.decode(text, options={"verify_signature": False})
    assert "kid" not in jwt.get_unverified_header(text)
    assert claims["exp"] - time.time() == pytest.approx(3600, abs=30)


async def test_authlib_accepts_the_metadata(session: AsyncOAuth2Client) -> None:
    response = await session.request("GET", f"https://bank.example{METADATA_PATH}", withhold_token=True)
    AuthorizationServerMetadata(response.json()).validate()
