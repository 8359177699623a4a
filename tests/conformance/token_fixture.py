"""The conformance cases of the token endpoint: one request each. There is a client for each authentication method."""

import re
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from tests.conformance.cases import SingleStepCase, body_of
from tests.conformance.runner import ProtocolFixture, Request
from tests.conftest import ManualClock
from tests.events.client_keys import ASSERTION_TYPE, assertion, jwks
from tests.events.token_app import basic
from tests.pki import TPP_DN, pki
from tests.server.live_server import LiveServer, RawResponse

FORM = "application/x-www-form-urlencoded"
_TOKEN = re.compile(rb"\bet_[\w-]{20,}")


class TokenExpected(msgspec.Struct, forbid_unknown_fields=True):
    status: int
    scope: str | None = None
    error: str | None = None
    description: str | None = None
    # Whether the response has a WWW-Authenticate header.
    challenge: bool = False


class TokenCase(SingleStepCase, forbid_unknown_fields=True, kw_only=True):
    """`form`, or `raw` in its place, is sent as `media_type`; the other fields are the client's authentication."""

    expected: TokenExpected
    form: dict[str, str] = msgspec.field(default_factory=dict)
    raw: str | None = None
    media_type: str = ""
    certificate: str | None = None
    secret: Literal["right", "wrong"] | None = None
    # Token claims that differ from the default; `seconds` until it expires, and whether it `names_key`.
    assertion: dict[str, Any] | None = None


class TokenFixture(ProtocolFixture[TokenCase, TokenCase]):
    def __init__(self, server: LiveServer, clock: ManualClock) -> None:
        super().__init__(server, clock)
        scope = "eventpolling ssf.read"
        by_certificate = ClientRegistration("n", "tls_client_auth", "by-certificate", subject_dn=TPP_DN, scope=scope)
        self.write(clients.add, by_certificate)
        self.write(clients.add, ClientRegistration("n", "private_key_jwt", "by-key", jwks=jwks("ec-1")))
        self._secret = self.write(
            clients.add, ClientRegistration("n", "client_secret_basic", "by-secret")
        ).client_secret

    def set_up(self, case: TokenCase) -> None:
        """All cases share the clients."""

    def request(self, step: TokenCase) -> Request:
        form, headers = dict(step.form), {"content-type": step.media_type or FORM}
        if step.certificate is not None:
            headers["client-cert"] = getattr(pki(), step.certificate).header
        if step.secret is not None:
            headers |= basic("by-secret", self._secret if step.secret == "right" else "wrong")
        if step.assertion is not None:
            claims = {"aud": "https://localhost", **step.assertion}
            text = assertion("by-key", claims.pop("aud"), **claims)
            form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": text}
        body = urlencode(form) if step.raw is None else step.raw
        return Request("POST", "/token", list(headers.items()), body.encode())

    def parked_count(self) -> int:
        return 0

    def normalized(self, response: RawResponse) -> RawResponse:
        return response.without_date()._replace(body=_TOKEN.sub(b"<token>", response.body))

    def check(self, step: TokenCase, response: RawResponse, before: Any) -> None:
        expected, body = step.expected, body_of(response)
        assert response.status == expected.status, body
        assert response.header(b"cache-control") == b"no-store"
        assert (response.header(b"www-authenticate") is not None) == expected.challenge
        if response.status == 200:
            assert set(body) == {"access_token", "token_type", "expires_in", "scope"}
            assert body["token_type"] == "Bearer"
            assert expected.scope in (None, body["scope"])
        else:
            assert set(body) == {"error", "error_description"}
            assert body["error"] == expected.error
            assert expected.description in (None, body["error_description"])
