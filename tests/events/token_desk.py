"""The token endpoint in a test: an application of its own, asked by callers with and without certificates."""

import base64
import ipaddress
from typing import Any
from urllib.parse import quote

import httpx

from restante.database.database import Database
from restante.events import clients
from restante.events.access import AccessOptions, TokenTotals
from restante.events.clients import Registration
from restante.events.oauth_wire import SHAPE
from restante.events.routes_token import TokenRoutes
from restante.identity.client_tokens import ClientTokens
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import Gate
from restante.web.application import build_application
from restante.web.peer import EXTENSION, Peers
from tests.events.keys import jwks
from tests.pki import TPP_DN, Pair

BASE = "https://bank.example"
TOKEN_URL = BASE + "/token"
GRANT = {"grant_type": "client_credentials"}
PROXY = "10.0.0.9"


class TokenDesk:
    def __init__(self, database: Database, **options: Any) -> None:
        self.database = database
        self.totals = TokenTotals()
        self.tokens = ClientTokens(database)
        peers = Peers([ipaddress.ip_network("10.0.0.0/8")])
        self.routes = TokenRoutes(database, peers, AccessOptions(**options), self.totals)
        device_tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
        gate = Gate(database, device_tokens, None, self.tokens, peers)
        self._application = build_application(self.routes.routes(), gate, SHAPE)

    async def ask(
        self,
        form: dict[str, str] | bytes,
        *,
        headers: dict[str, str] | None = None,
        certificate: Pair | None = None,
        address: str = "127.0.0.1",
        base: str = BASE,
        method: str = "POST",
        path: str = "/token",
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self._with_certificate(certificate), client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            body: dict[str, Any] = {"content": form} if isinstance(form, bytes) else {"data": form}
            return await client.request(method, path, headers=headers, **body)

    def _with_certificate(self, certificate: Pair | None) -> Any:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            if certificate is not None:
                scope["extensions"] = {EXTENSION: {"der": certificate.der}}
            await self._application(scope, receive, send)

        return application


def basic(client_id: str, secret: str) -> dict[str, str]:
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def add_by_secret(database: Database, client_id: str = "tpp", scope: str = "eventpolling") -> dict[str, str]:
    """A client with a secret; the header it proves itself with."""
    added = database.write_now(clients.add, Registration("n", "client_secret_basic", client_id, scope=scope))
    assert added.client_secret is not None
    return basic(client_id, added.client_secret)


def add_by_key(database: Database, *names: str, client_id: str = "tpp") -> None:
    keys = jwks(*(names or ("ec-1",)))
    database.write_now(clients.add, Registration("n", "private_key_jwt", client_id, jwks=keys))


def add_by_certificate(database: Database, subject: str = TPP_DN, client_id: str = "tpp") -> None:
    database.write_now(clients.add, Registration("n", "tls_client_auth", client_id, subject_dn=subject))
