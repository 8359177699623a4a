"""A third-party provider (TPP) of Open Banking: authlib gets its tokens; it calls the events API as its profiles say.

It knows the bank's address, its own keys and certificate, and nothing of the server's code.
"""

import json
import ssl
from base64 import urlsafe_b64decode
from typing import Any
from uuid import uuid4

import httpx
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.events.client_keys import private_key
from tests.events.message_signing import header_of, sign, verified_header
from tests.pki import CertificateFiles, pki

SIGNING_KEY = "rsa-1"
MEDIA_TYPE = "application/json; charset=utf-8"
SCOPES = "eventpolling accounts"
TIMEOUT_SECONDS = 30.0

V3 = "/open-banking/v3.1"
V4 = "/open-banking/v4.0"


def tls_context(certificate: CertificateFiles | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pki().authority.certificate)
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


class Tpp:
    """One TPP. With `has_assertions` it authenticates with signed assertions, otherwise with its certificate."""

    def __init__(self, bank: str, client_id: str, certificate: CertificateFiles, *, has_assertions: bool) -> None:
        self._bank = bank
        with httpx.Client(verify=tls_context(certificate), timeout=TIMEOUT_SECONDS) as client:
            self.metadata = client.get(f"{bank}/.well-known/oauth-authorization-server").json()
            # Fetched once, before the first event exists, as many clients do.
            self.jwks = client.get(self.metadata["jwks_uri"]).json()
        secret = private_key(SIGNING_KEY).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        self.session = OAuth2Client(
            client_id,
            secret if has_assertions else None,
            # Authlib has no method of its own for certificates: with "none" it sends its client_id, as RFC 8705 says.
            token_endpoint_auth_method="private_key_jwt" if has_assertions else "none",
            scope=SCOPES,
            verify=tls_context(certificate),
            timeout=TIMEOUT_SECONDS,
        )
        if has_assertions:
            self.session.register_client_auth_method(PrivateKeyJWT(self.metadata["token_endpoint"]))

    def log_in(self) -> dict[str, Any]:
        token: dict[str, Any] = self.session.fetch_token(
            self.metadata["token_endpoint"], grant_type="client_credentials"
        )
        return token

    def close(self) -> None:
        self.session.close()

    def subscribe(self, version: str, body: dict[str, Any]) -> httpx.Response:
        return self._send_signed("POST", f"{version}/event-subscriptions", version, body)

    def change_subscription(self, version: str, id: str, body: dict[str, Any]) -> httpx.Response:
        return self._send_signed("PUT", f"{version}/event-subscriptions/{id}", version, body)

    def request(self, method: str, path: str) -> httpx.Response:
        return self._checked(self.session.request(method, self._bank + path, headers=self._headers()))

    def poll(self, version: str, body: str) -> httpx.Response:
        headers = {**self._headers(), "content-type": MEDIA_TYPE}
        return self._checked(self.session.post(f"{self._bank}{version}/events", content=body, headers=headers))

    def collect(self, version: str, count: int) -> dict[str, dict[str, Any]]:
        """Poll until so many events have come; return their verified claims by jti. Waits at the server."""
        while True:
            found = self.poll(version, "{}").json()["sets"]
            if len(found) >= count:
                return {jti: self.verified_claims(token) for jti, token in found.items()}

    def verified_claims(self, token: str) -> dict[str, Any]:
        header, payload, signature = token.split(".")
        claims = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        verified_header(f"{header}..{signature}", claims, self.jwks)
        decoded: dict[str, Any] = json.loads(claims)
        return decoded

    def _send_signed(self, method: str, path: str, version: str, body: dict[str, Any]) -> httpx.Response:
        """Send a signed body: clients of version 3.1 sign it as it is, clients of version 4.0 in base64url."""
        content = json.dumps(body).encode()
        signature = sign(content, header_of(SIGNING_KEY, is_unencoded=version == V3), SIGNING_KEY)
        headers = {**self._headers(), "content-type": MEDIA_TYPE, "x-jws-signature": signature}
        response = self._checked(self.session.request(method, self._bank + path, content=content, headers=headers))
        if response.is_success:
            header = verified_header(response.headers["x-jws-signature"], response.content, self.jwks)
            assert ("b64" in header) == (version == V3)
        return response

    def _headers(self) -> dict[str, str]:
        self._interaction_id = str(uuid4())
        return {"x-fapi-interaction-id": self._interaction_id, "accept": "application/json"}

    def _checked(self, response: httpx.Response) -> httpx.Response:
        """Check what the profile promises of every response."""
        assert response.headers["x-fapi-interaction-id"] == self._interaction_id
        assert not response.content or response.headers["content-type"] == MEDIA_TYPE
        return response
