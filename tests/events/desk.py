"""Routes for clients in a test: an application of their own, and clients with access tokens to ask it."""

from collections.abc import Iterable
from typing import Any

import httpx

from restante.database.database import Database
from restante.events.receiver_client import ClientOptions, ReceiverClient
from restante.events.wire import SHAPE
from restante.identity import client_tokens
from restante.identity.client_tokens import ClientTokens
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import Gate
from restante.web.application import build_application
from restante.web.routes import Route
from tests.events.pushing import add_client

BASE = "https://bank.example"
KEY = MasterKey(bytes(range(32)))


async def resolve(host: str, _port: int) -> list[str]:
    """As the world is in these tests: what ends in .example is public, what is inside is not, the rest is nowhere."""
    if host.endswith("inside.example"):
        return ["10.1.2.3"]
    if host.endswith(".example"):
        return ["8.8.8.8", "2606:4700::1111"]
    raise OSError(f"{host} is nowhere")


def receiver_client() -> ReceiverClient:
    return ReceiverClient(ClientOptions(), resolve)


class Desk:
    def __init__(self, database: Database, routes: Iterable[Route]) -> None:
        self.database = database
        self.tokens = ClientTokens(database)
        device_tokens = DeviceTokens(database, SigningKeys(database, KEY), OutsideIssuers())
        self._application = build_application(routes, Gate(database, device_tokens, None, self.tokens), SHAPE)

    def new_client(self, scope: str = "eventpolling ssf.read ssf.manage") -> "DeskClient":
        client = add_client(self.database)
        token = self.database.write_now(client_tokens.issue, client, scope, None, 3600)
        return DeskClient(self, client, token)

    async def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._application)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(method, path, **request)


class DeskClient:
    def __init__(self, desk: Desk, id: int, token: str) -> None:
        self._desk = desk
        self.id = id
        self.token = token

    async def ask(
        self, method: str, path: str, json: Any = None, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        sent = {"authorization": f"Bearer {self.token}", **(headers or {})}
        body = {} if json is None else {"json": json}
        return await self._desk.ask(method, path, headers=sent, **body, **more)
