"""The routes by which devices and people come in, served by the real application to an in-memory client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from nacl.encoding import Base64Encoder
from nacl.public import PrivateKey

from restante.database.database import Database
from restante.identity import api_keys, sessions
from restante.identity.callers import DeviceRevoked, Role
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.refresh_key import RefreshKey
from restante.identity.sign_in import SignIn
from restante.identity.signing_keys import SigningKeys
from restante.updates.approval import Approval
from restante.updates.pages import asset_routes
from restante.updates.routes_auth import AuthRoutes
from restante.updates.routes_devices import DeviceRoutes
from restante.updates.routes_registration import RegistrationRoutes
from restante.updates.routes_verification import VerificationRoutes
from restante.updates.wire import SHAPE
from restante.web.access import SESSION_COOKIE, Gate
from restante.web.application import build_application
from restante.web.ask import Ask
from restante.web.routes import Access, Route
from tests.conftest import ManualClock
from tests.identity.population import add_user

BASE = "http://restante.example"


def new_key() -> str:
    return PrivateKey.generate().public_key.encode(Base64Encoder).decode()


def registration(**changed: Any) -> dict[str, Any]:
    body = {
        "device_public_id": str(uuid4()),
        "dev_pk": new_key(),
        "platform": "linux",
        "model": "m1",
        "app_version": "1.2.3",
        "name": "kiosk",
        **changed,
    }
    return {name: value for name, value in body.items() if value is not ...}


async def _who(ask: Ask) -> dict[str, int]:
    return {"device_id": ask.device.device_id, "user_id": ask.device.user_id}


class AuthApp:
    def __init__(self, database: Database, clock: ManualClock, public_url: str | None = None) -> None:
        self.database = database
        self.clock = clock
        self.seconds = lambda: clock.now_ms / 1000
        master_key = MasterKey(bytes(32))
        refresh_key = RefreshKey(master_key)
        keys = SigningKeys(database, master_key)
        self.tokens = DeviceTokens(database, keys, OutsideIssuers(), clock=self.seconds)
        database.on_commit(self._forget_revoked)
        gate = Gate(database, self.tokens)
        sign_in = SignIn(database, clock=self.seconds)
        approval = Approval(database, clock=self.seconds)
        auth = AuthRoutes(
            database, gate, self.tokens, sign_in, approval, refresh_key, public_url=public_url, clock=self.seconds
        )
        self.routes = [
            *auth.routes(),
            *RegistrationRoutes(database, self.tokens, refresh_key).routes(),
            *DeviceRoutes(database).routes(),
            *VerificationRoutes(database, gate, sign_in, approval, public_url=public_url).routes(),
            *asset_routes(),
            Route("GET", "/who", _who, Access.device, "Which device calls.", SHAPE, "test"),
        ]
        self._transport = httpx.ASGITransport(build_application(self.routes, gate, SHAPE))

    def client(self, base: str = BASE, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self._transport, base_url=base, **options)

    async def signed_in(self, email: str = "ada@example.com", role: Role = Role.operator) -> "SignedIn":
        user_id = add_user(self.database, email, role)
        token = self.database.write_now(sessions.start, user_id)
        client = self.client(cookies={SESSION_COOKIE: token})
        return SignedIn(client, user_id)

    def key_client(self, role: Role) -> httpx.AsyncClient:
        _, key = self.database.write_now(api_keys.create, role.name, role)
        return self.client(headers={"Authorization": f"Bearer {key}"})

    async def device_start(self, **fields: Any) -> dict[str, Any]:
        async with self.client() as client:
            answer = await client.post("/auth/device", json={"action": "device_start", **fields})
        assert answer.status_code == 200
        started: dict[str, Any] = answer.json()["data"]
        return started

    async def approved_code(self, person: "SignedIn") -> str:
        """A device code that the person has approved."""
        started = await self.device_start()
        await person.verify(started["user_code"])
        return str(started["device_code"])

    async def who(self, access_token: str) -> httpx.Response:
        async with self.client() as client:
            return await client.get("/who", headers={"Authorization": f"Bearer {access_token}"})

    def _forget_revoked(self, announced: list[object]) -> None:
        for event in announced:
            if isinstance(event, DeviceRevoked):
                self.tokens.forget_device(event.device_id)


class SignedIn:
    def __init__(self, client: httpx.AsyncClient, user_id: int) -> None:
        self.client = client
        self.user_id = user_id

    @property
    def devices(self) -> str:
        return f"/apiv1/users/{self.user_id}/devices"

    async def verify(self, user_code: str, approve: bool = True) -> httpx.Response:
        body = {"action": "device_verify", "user_code": user_code, "approve": approve}
        return await self.client.post("/auth/device", json=body)

    async def register(self, **changed: Any) -> dict[str, Any]:
        answer = await self.client.post(self.devices, json=registration(**changed))
        assert answer.status_code == 200, answer.text
        registered: dict[str, Any] = answer.json()["data"]
        return registered


@asynccontextmanager
async def serving(database: Database, clock: ManualClock, public_url: str | None = None) -> AsyncIterator[AuthApp]:
    app = AuthApp(database, clock, public_url)
    await app.tokens.start()
    yield app


def field_named(answer: httpx.Response) -> str:
    """The field a 400 names."""
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["code"] == 5000
    return str(error["what"]).partition(":")[0]


def code_of(answer: httpx.Response) -> tuple[int, int]:
    return answer.status_code, answer.json()["error"]["code"]
