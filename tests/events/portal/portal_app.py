"""An ASGI application with the developers' portal, called as a browser does: with its cookies."""

import re
import time
from collections.abc import Callable
from typing import Any

import httpx

from restante.database.database import Database
from restante.events.portal.component import PORTAL, PortalAccess, PortalComponent
from restante.events.portal.content import PortalFacts
from restante.identity.clients import client_tokens
from restante.identity.clients.client_tokens import ClientTokens
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import AccessControl
from restante.web.client_cert import EXTENSION, ClientCertificates
from tests.defaults import new_application, new_device_tokens
from tests.events.default_options import stored_poll
from tests.events.push_fixture import add_client
from tests.pki import CertificateFiles

BASE = "https://bank.example"


class PortalApp:
    def __init__(self, database: Database, facts: PortalFacts, clock: Callable[[], float] = time.time) -> None:
        self.database = database
        tokens = ClientTokens(database)
        device_tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
        certificates = ClientCertificates()
        control = AccessControl(database, device_tokens, None, tokens, certificates, public_url=BASE)
        self.component = PortalComponent(
            database, facts, PortalAccess(control, tokens, certificates, BASE), stored_poll, clock
        )
        self._application = new_application(self.component.routes(), control, PORTAL)
        self.certificate: CertificateFiles | None = None
        self.cookies = httpx.Cookies()

    def new_client(self, thumbprint: str | None = None, seconds: int = 600) -> tuple[int, str]:
        """The row id of a new client, and an access token of it."""
        client = add_client(self.database)
        return client, self.database.write_now(client_tokens.issue, client, "eventpolling", thumbprint, seconds)

    async def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        async def application(scope: Any, receive: Any, send: Any) -> None:
            if self.certificate is not None:
                scope["extensions"] = {EXTENSION: {"der": self.certificate.der}}
            await self._application(scope, receive, send)

        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, cookies=self.cookies) as client:
            response = await client.request(method, path, **request)
            self.cookies = client.cookies
            return response

    async def sign_in(self, token: str, **request: Any) -> httpx.Response:
        return await self.request("POST", "/developer/session", data={"access_token": token}, **request)

    async def post_form(self, path: str, **request: Any) -> httpx.Response:
        """Submit the form of the client's page that goes to this path."""
        page = (await self.request("GET", "/developer/client")).text
        found = re.search(r'name="form_token" value="([^"]+)"', page)
        assert found is not None, page
        return await self.request("POST", path, data={"form_token": found[1]}, **request)
