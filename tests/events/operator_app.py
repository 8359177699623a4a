"""An ASGI application with the operator routes of events, real access control, and an API key of each role."""

import asyncio
from typing import Any

import httpx

from restante.database.database import Database
from restante.events.inbox import inbox
from restante.events.inbox.inbox import InboxPollRequest
from restante.events.response_format import RESPONSE_FORMAT
from restante.events.signing.component import SigningComponent
from restante.events.signing.key_rotation import RotationOptions
from restante.events.signing.signing_pool import SigningPool
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.signing_keys import SigningKeys
from restante.web.access import AccessControl
from tests.defaults import new_application, new_device_tokens
from tests.events.default_options import inbox_options, remote_keys, signing_options
from tests.events.publish_fixture import MASTER, OPTIONS, SUB, UPDATED, signer_of


class OperatorApp:
    def __init__(self, database: Database) -> None:
        self.database = database
        rotation = RotationOptions(days=90, lead_seconds=3600, overlap_seconds=86_400)
        self.parts = SigningComponent(
            database, MASTER, signing_options(signer=OPTIONS, rotation=rotation, processes=1), remote_keys(database)
        )
        tokens = new_device_tokens(database, SigningKeys(database, MASTER))
        application = new_application(self.parts.routes(), AccessControl(database, tokens), RESPONSE_FORMAT)
        self._transport = httpx.ASGITransport(application)
        self._keys = {role: database.write_now(api_keys.create, role.name, role)[1] for role in Role}

    async def request(
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
        """Publish an event; `...` leaves a field out."""
        body = {"sub": SUB, "events": UPDATED, **changed}
        return await self.request(
            "POST", "/admin/events", {name: each for name, each in body.items() if each is not ...}
        )


def sign_all(database: Database, pool: SigningPool) -> int:
    return asyncio.run(signer_of(database, pool).run_once())


def poll_jtis(database: Database, client: int, limit: int = 100) -> list[str]:
    """Poll once; return the jtis of the delivered events."""
    return list(database.write_now(inbox.poll_inbox, inbox_options(), InboxPollRequest(client, limit)).sets)


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    """Return the status, the error code and the field of an error response."""
    error = response.json()["Errors"][0]
    return response.status_code, error["ErrorCode"].removeprefix("UK.OBIE."), error.get("Path")
