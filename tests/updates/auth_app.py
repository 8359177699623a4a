"""The routes that authenticate devices and people, served by the real application to an in-memory client."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from nacl.encoding import Base64Encoder
from nacl.public import PrivateKey

from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.identity import api_keys
from restante.identity.callers import DeviceRevoked, Role
from restante.identity.devices.device_codes import DeviceCodeLimits
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.master_key import MasterKey
from restante.identity.people import passwords, sessions
from restante.identity.people.sign_in import SignIn
from restante.identity.signing_keys import SigningKeys
from restante.updates.devices.approval import Approval
from restante.updates.devices.pages import asset_routes
from restante.updates.devices.routes_apikeys import ApiKeyRoutes
from restante.updates.devices.routes_auth import AuthRoutes
from restante.updates.devices.routes_devices import DeviceRoutes
from restante.updates.devices.routes_registration import RegistrationRoutes
from restante.updates.devices.routes_verification import VerificationRoutes
from restante.updates.fleet.routes_delivery import DeliveryRoutes
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import SECURE_SESSION_COOKIE, SESSION_COOKIE, AccessControl
from restante.web.origin import DIRECT, Senders
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route
from tests.conftest import ManualClock
from tests.defaults import new_application, new_device_tokens
from tests.identity.people_and_devices import CODE_KEY, CODE_LIMITS, MONTH_SECONDS, SESSION_SECONDS, add_user

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


async def _who(request: ApiRequest) -> dict[str, int]:
    return {"device_id": request.device.device_id, "user_id": request.device.user_id}


class AuthApp:
    def __init__(
        self,
        database: Database,
        clock: ManualClock,
        public_url: str | None = None,
        code_limits: DeviceCodeLimits = CODE_LIMITS,
        is_correct: Callable[[str | None, str], bool] = passwords.is_correct,
        senders: Senders = DIRECT,
    ) -> None:
        self.database = database
        self.public_url = public_url
        self.clock = clock
        self.seconds = lambda: clock.now_ms / 1000
        master_key = MasterKey(bytes(32))
        refresh_key = RefreshKey(master_key)
        keys = SigningKeys(database, master_key)
        self.tokens = new_device_tokens(database, keys, clock=self.seconds)
        database.on_commit(self._forget_revoked)
        access_control = AccessControl(database, self.tokens, public_url=public_url, senders=senders)
        sign_in = SignIn(database, master_key, session_seconds=SESSION_SECONDS, is_correct=is_correct)
        approval = Approval(database, clock=self.seconds)
        lifetime = {"refresh_token_seconds": MONTH_SECONDS}
        auth = AuthRoutes(
            database,
            access_control,
            self.tokens,
            sign_in,
            approval,
            refresh_key,
            CODE_KEY,
            code_limits=code_limits,
            base_url=public_url or BASE,
            clock=self.seconds,
            **lifetime,
        )
        self.presence = DevicePresence(database)
        self.routes = [
            *auth.routes(),
            *RegistrationRoutes(database, access_control, self.tokens, refresh_key, **lifetime).routes(),
            *DeviceRoutes(database, self.presence).routes(),
            *DeliveryRoutes(database, self.presence).routes(),
            *ApiKeyRoutes(database).routes(),
            *VerificationRoutes(database, access_control, sign_in, approval).routes(),
            *asset_routes(),
            Route("GET", "/who", _who, Access.device, "Show the calling device.", RESPONSE_FORMAT, "test"),
        ]
        self._application = new_application(self.routes, access_control, RESPONSE_FORMAT)

    def client(self, base: str = BASE, peer: str = "127.0.0.1", **options: Any) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self._application, client=(peer, 123))
        return httpx.AsyncClient(transport=transport, base_url=base, **options)

    async def signed_in(self, email: str = "ada@example.com", role: Role = Role.operator) -> "SignedInPerson":
        user_id = add_user(self.database, email, role)
        token = self.database.write_now(sessions.start, user_id, SESSION_SECONDS)
        is_https = (self.public_url or "").startswith("https")
        client = self.client(cookies={SECURE_SESSION_COOKIE if is_https else SESSION_COOKIE: token})
        return SignedInPerson(client, user_id)

    def key_client(self, role: Role) -> httpx.AsyncClient:
        _, key = self.database.write_now(api_keys.create, role.name, role)
        return self.client(headers={"Authorization": f"Bearer {key}"})

    async def device_start(self, **fields: Any) -> dict[str, Any]:
        async with self.client() as client:
            response = await client.post("/auth/device", json={"action": "device_start", **fields})
        assert response.status_code == 200
        started: dict[str, Any] = response.json()["data"]
        return started

    async def approved_code(self, person: "SignedInPerson") -> str:
        """A device code that the person has approved."""
        started = await self.device_start()
        await person.verify(started["user_code"])
        return str(started["device_code"])

    async def who(self, access_token: str) -> httpx.Response:
        async with self.client() as client:
            return await client.get("/who", headers={"Authorization": f"Bearer {access_token}"})

    def _forget_revoked(self, commit_events: list[object]) -> None:
        for event in commit_events:
            if isinstance(event, DeviceRevoked):
                self.tokens.forget_device(event.device_id)


class SignedInPerson:
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
        response = await self.client.post(self.devices, json=registration(**changed))
        assert response.status_code == 200, response.text
        registered: dict[str, Any] = response.json()["data"]
        return registered


@asynccontextmanager
async def serving(
    database: Database,
    clock: ManualClock,
    public_url: str | None = None,
    code_limits: DeviceCodeLimits = CODE_LIMITS,
    is_correct: Callable[[str | None, str], bool] = passwords.is_correct,
) -> AsyncIterator[AuthApp]:
    app = AuthApp(database, clock, public_url, code_limits, is_correct)
    await app.tokens.start()
    yield app


def field_named(response: httpx.Response) -> str:
    """The field in a 400 error."""
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["code"] == 5000
    return str(error["what"]).partition(":")[0]


def code_of(response: httpx.Response) -> tuple[int, int]:
    return response.status_code, response.json()["error"]["code"]
