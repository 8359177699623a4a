"""How a client authenticates at the token endpoint."""

from __future__ import annotations

import base64
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field
from typing import Optional, Union

from restante_client.events.jws import sign

ASSERTION_SECONDS = 300
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True)
class ClientSecret:
    """`client_secret_basic`: for development."""

    client_id: str
    secret: str = field(repr=False)

    def form(self, _audience: str) -> dict[str, str]:
        """The fields of a token request for this audience that prove who the client is."""
        return {}

    def headers(self) -> dict[str, str]:
        """The headers of a token request that prove who the client is."""
        # RFC 6749 encodes both parts before they are joined.
        pair = ":".join(urllib.parse.quote(part, safe="") for part in (self.client_id, self.secret))
        return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


@dataclass(frozen=True)
class PrivateKeyJwt:
    """`private_key_jwt`: an assertion signed with the client's own key, in PEM."""

    client_id: str
    private_key_pem: bytes = field(repr=False)
    algorithm: str = "PS256"
    key_id: Optional[str] = None

    def form(self, audience: str) -> dict[str, str]:
        """The fields of a token request for this audience that prove who the client is."""
        now = int(time.time())
        header = {"alg": self.algorithm, "typ": "JWT", **({} if self.key_id is None else {"kid": self.key_id})}
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": audience,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": str(uuid.uuid4()),
        }
        return {
            "client_id": self.client_id,
            "client_assertion_type": _ASSERTION_TYPE,
            "client_assertion": sign(header, claims, self.private_key_pem),
        }

    def headers(self) -> dict[str, str]:
        """The headers of a token request that prove who the client is."""
        return {}


@dataclass(frozen=True)
class TlsCertificate:
    """`tls_client_auth`: the certificate of the connection. Give it as an SSL context in `ReceiverOptions.http`."""

    client_id: str

    def form(self, _audience: str) -> dict[str, str]:
        """The fields of a token request for this audience that prove who the client is."""
        return {"client_id": self.client_id}

    def headers(self) -> dict[str, str]:
        """The headers of a token request that prove who the client is."""
        return {}


Credentials = Union[ClientSecret, PrivateKeyJwt, TlsCertificate]
