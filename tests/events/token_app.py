"""An ASGI application with the token endpoint, called with and without client certificates."""

import base64
import ipaddress
from typing import Any
from urllib.parse import quote

import httpx

from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.access import TokenCounters
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.authentication.response_format import RESPONSE_FORMAT
from restante.events.clients.authentication.routes_token import TokenRoutes
from restante.events.clients.clients import ClientRegistration
from restante.events.clients.refusals import Refusals
from restante.identity.clients.client_tokens import ClientTokens
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import AccessControl
from restante.web.client_cert import EXTENSION, ClientCertificates
from tests.defaults import new_application, new_device_tokens
from tests.events.client_keys import jwks
from tests.events.default_options import access_options, remote_keys
from tests.pki import TPP_DN, CertificateFiles

BASE = "https://bank.example"
TOKEN_URL = BASE + "/token"
GRANT = {"grant_type": "client_credentials"}
PROXY = "10.0.0.9"


class TokenApp:
    def __init__(self, database: Database, keys: RemoteKeys | None = None, **options: Any) -> None:
        self.database = database
        self.counters = TokenCounters()
        self.tokens = ClientTokens(database)
        client_certificates = ClientCertificates([ipaddress.ip_network("10.0.0.0/8")])
        self.refusals = Refusals(database)
        self.routes = TokenRoutes(
            database,
            client_certificates,
            access_options(**{"base_url": BASE, **options}),
            self.counters,
            self.refusals,
            keys or remote_keys(database),
        )
        device_tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
        access_control = AccessControl(database, device_tokens, None, self.tokens, client_certificates)
        self.application = new_application(self.routes.routes(), access_control, RESPONSE_FORMAT)

    async def request(
        self,
        form: dict[str, str] | bytes,
        *,
        headers: dict[str, str] | None = None,
        certificate: CertificateFiles | None = None,
        address: str = "127.0.0.1",
        base: str = BASE,
        method: str = "POST",
        path: str = "/token",
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self._with_certificate(certificate), client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            body: dict[str, Any] = {"content": form} if isinstance(form, bytes) else {"data": form}
            return await client.request(method, path, headers=headers, **body)

    def _with_certificate(self, certificate: CertificateFiles | None) -> Any:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            if certificate is not None:
                scope["extensions"] = {EXTENSION: {"der": certificate.der}}
            await self.application(scope, receive, send)

        return application


def basic(client_id: str, secret: str) -> dict[str, str]:
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def add_by_secret(database: Database, client_id: str = "tpp", scope: str = "eventpolling") -> dict[str, str]:
    """Register a client with a secret; return its Authorization header."""
    added = database.write_now(clients.add, ClientRegistration("n", "client_secret_basic", client_id, scope=scope))
    assert added.client_secret is not None
    return basic(client_id, added.client_secret)


def add_by_key(database: Database, *names: str, client_id: str = "tpp") -> None:
    keys = jwks(*(names or ("ec-1",)))
    database.write_now(clients.add, ClientRegistration("n", "private_key_jwt", client_id, jwks=keys))


def add_by_certificate(database: Database, subject: str = TPP_DN, client_id: str = "tpp") -> None:
    database.write_now(clients.add, ClientRegistration("n", "tls_client_auth", client_id, subject_dn=subject))
