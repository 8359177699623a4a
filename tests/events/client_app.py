"""An ASGI application with client routes, and HTTP clients with access tokens that call it."""

from collections.abc import Iterable
from typing import Any

import httpx

from restante.database.database import Database
from restante.events.outgoing_http import OutgoingClient
from restante.events.response_format import RESPONSE_FORMAT
from restante.identity.clients import client_tokens
from restante.identity.clients.client_tokens import ClientTokens
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import AccessControl
from restante.web.routes import Route
from tests.defaults import new_application, new_device_tokens
from tests.events.default_options import receiver_client_options
from tests.events.push_fixture import add_client

BASE = "https://bank.example"
KEY = MasterKey(bytes(range(32)))


async def resolve(host: str, _port: int) -> list[str]:
    """Fake name lookup: hosts under .example are public, inside.example is private, others do not resolve."""
    if host.endswith("inside.example"):
        return ["10.1.2.3"]
    if host.endswith(".example"):
        return ["8.8.8.8", "2606:4700::1111"]
    raise OSError(f"{host} does not resolve")


def receiver_client() -> OutgoingClient:
    return OutgoingClient(receiver_client_options(), resolve)


class ClientApp:
    def __init__(self, database: Database, routes: Iterable[Route]) -> None:
        self.database = database
        self.tokens = ClientTokens(database)
        device_tokens = new_device_tokens(database, SigningKeys(database, KEY))
        self._application = new_application(
            routes, AccessControl(database, device_tokens, None, self.tokens), RESPONSE_FORMAT
        )

    def new_client(self, scope: str = "eventpolling ssf.read ssf.manage") -> "AppClient":
        client = add_client(self.database)
        token = self.database.write_now(client_tokens.issue, client, scope, None, 3600)
        return AppClient(self, client, token)

    async def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._application)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(method, path, **request)


class AppClient:
    def __init__(self, app: ClientApp, id: int, token: str) -> None:
        self._app = app
        self.id = id
        self.token = token

    async def request(
        self, method: str, path: str, json: Any = None, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        sent = {"authorization": f"Bearer {self.token}", **(headers or {})}
        body = {} if json is None else {"json": json}
        return await self._app.request(method, path, headers=sent, **body, **more)
