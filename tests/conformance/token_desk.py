"""The world of the cases of the token endpoint: a client for each way of proving oneself."""

import re
from typing import Any
from urllib.parse import urlencode

from restante.events import clients
from restante.events.clients import Registration
from tests.conformance.cases import body_of
from tests.conformance.runner import Request, World
from tests.conformance.token_cases import Case
from tests.conftest import ManualClock
from tests.events.keys import ASSERTION_TYPE, assertion, jwks
from tests.events.token_desk import basic
from tests.pki import TPP_DN, pki
from tests.server.serving import Served, WireAnswer

FORM = "application/x-www-form-urlencoded"
_TOKEN = re.compile(rb"\bet_[\w-]{20,}")


class TokenDesk(World[Case, Case]):
    def __init__(self, served: Served, clock: ManualClock) -> None:
        super().__init__(served, clock)
        scope = "eventpolling ssf.read"
        by_certificate = Registration("n", "tls_client_auth", "by-certificate", subject_dn=TPP_DN, scope=scope)
        self.write(clients.add, by_certificate)
        self.write(clients.add, Registration("n", "private_key_jwt", "by-key", jwks=jwks("ec-1")))
        self._secret = self.write(clients.add, Registration("n", "client_secret_basic", "by-secret")).client_secret

    def begin(self, case: Case) -> None:
        """Nothing that a case does is in another's way."""

    def request(self, step: Case) -> Request:
        form, headers = dict(step.form), {"content-type": step.media_type or FORM}
        if step.certificate is not None:
            headers["client-cert"] = getattr(pki(), step.certificate).header
        if step.secret is not None:
            headers |= basic("by-secret", self._secret if step.secret == "right" else "wrong")
        if step.assertion is not None:
            claims = {"aud": "https://localhost/token", **step.assertion}
            text = assertion("by-key", claims.pop("aud"), **claims)
            form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": text}
        body = urlencode(form) if step.raw is None else step.raw
        return Request("POST", "/token", list(headers.items()), body.encode())

    def waiting_count(self) -> int:
        return 0

    def same_in_both(self, answer: WireAnswer) -> WireAnswer:
        return answer.without_date()._replace(body=_TOKEN.sub(b"<token>", answer.body))

    def check(self, step: Case, answer: WireAnswer, before: Any) -> None:
        expected, body = step.expected, body_of(answer)
        assert answer.status == expected.status, body
        assert answer.header(b"cache-control") == b"no-store"
        assert (answer.header(b"www-authenticate") is not None) == expected.challenge
        if answer.status == 200:
            assert set(body) == {"access_token", "token_type", "expires_in", "scope"}
            assert body["token_type"] == "Bearer"
            assert expected.scope in (None, body["scope"])
        else:
            assert set(body) == {"error", "error_description"}
            assert body["error"] == expected.error
            assert expected.description in (None, body["error_description"])
