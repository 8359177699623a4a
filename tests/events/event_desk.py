"""The routes of event tokens behind the real gate, for holders of keys of every role."""

import asyncio
from typing import Any

import httpx

from restante.database.database import Database
from restante.events import inbox
from restante.events.inbox import InboxOptions, Wish
from restante.events.key_rotation import RotationOptions
from restante.events.sign_pool import SignPool
from restante.events.token_parts import EventTokens, TokenOptions
from restante.events.wire import SHAPE
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.signing_keys import SigningKeys
from restante.web.access import Gate
from restante.web.application import build_application
from tests.events.publishers import MASTER, OPTIONS, SUB, UPDATED, signer_of

Failed = dict[str, tuple[str, str]]


class EventDesk:
    def __init__(self, database: Database) -> None:
        self.database = database
        rotation = RotationOptions(lead_seconds=3600, overlap_seconds=86_400)
        self.parts = EventTokens(database, MASTER, TokenOptions(signer=OPTIONS, rotation=rotation, processes=1))
        tokens = DeviceTokens(database, SigningKeys(database, MASTER), OutsideIssuers())
        application = build_application(self.parts.routes(), Gate(database, tokens), SHAPE)
        self._transport = httpx.ASGITransport(application)
        self._keys = {role: database.write_now(api_keys.create, role.name, role)[1] for role in Role}

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: Role | None = Role.admin,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        sent = dict(headers or {})
        if role is not None:
            sent["authorization"] = f"Bearer {self._keys[role]}"
        async with httpx.AsyncClient(transport=self._transport, base_url="http://restante.test") as client:
            if content is not None:
                sent["content-type"] = "application/json"
                return await client.request(method, path, headers=sent, content=content)
            return await client.request(method, path, headers=sent, json=body)

    async def publish(self, **changed: Any) -> httpx.Response:
        """An event as JSON; `...` leaves a field out."""
        body = {"sub": SUB, "events": UPDATED, **changed}
        return await self.call("POST", "/admin/events", {name: each for name, each in body.items() if each is not ...})


def sign_all(database: Database, pool: SignPool) -> int:
    return asyncio.run(signer_of(database, pool).run_once())


def poll(database: Database, client: int, limit: int = 100) -> list[str]:
    """What a poll is handed."""
    return list(database.write_now(inbox.take, InboxOptions(), Wish(client, limit)).sets)


def refused_at(answer: httpx.Response) -> tuple[int, str, str | None]:
    """The status, the code and the field of a refusal."""
    error = answer.json()["Errors"][0]
    return answer.status_code, error["ErrorCode"].removeprefix("UK.OBIE."), error.get("Path")
