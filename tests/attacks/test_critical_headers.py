"""Assertions whose header names critical extensions (`crit`): the server supports none, so each one is refused."""

import base64
import json
import time
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from restante.database.database import Database
from tests.events.client_keys import ASSERTION_TYPE, private_key
from tests.events.token_app import BASE, GRANT, TokenApp, add_by_key


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def signed_with_header(**header: Any) -> dict[str, str]:
    """A token request with an assertion that is valid apart from its header. JWT libraries refuse to make some."""
    claims = {"iss": "tpp", "sub": "tpp", "aud": BASE, "exp": int(time.time()) + 60, "jti": str(uuid4())}
    protected = {"alg": "ES256", "kid": "ec-1", **header}
    text = f"{encoded(json.dumps(protected).encode())}.{encoded(json.dumps(claims).encode())}"
    r, s = decode_dss_signature(private_key("ec-1").sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    assertion = f"{text}.{encoded(r.to_bytes(32) + s.to_bytes(32))}"
    return {**GRANT, "client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["b64"], "b64": True},
        {"crit": ["b64"], "b64": False},
        {"crit": ["b64"]},
        {"crit": ["kid"]},
        {"crit": []},
        {"crit": None},
        {"crit": "kid"},
        {"crit": ["x"], "x": 1},
        {"typ": "at+jwt"},
        {"typ": "secevent+jwt"},
        {"typ": ""},
        {"typ": 1},
    ],
    ids=repr,
)
async def test_assertion_with_critical_header_or_another_type_is_refused(
    database: Database, header: dict[str, Any]
) -> None:
    add_by_key(database)
    refused = await TokenApp(database).request(signed_with_header(**header))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize("header", [{}, {"typ": "JWT"}, {"typ": "jwt"}, {"typ": "client-authentication+jwt"}], ids=repr)
async def test_same_assertion_without_critical_header_is_accepted(database: Database, header: dict[str, Any]) -> None:
    add_by_key(database)
    assert (await TokenApp(database).request(signed_with_header(**header))).status_code == 200
