"""The people of the demo as programs: each signs in with the password and calls the operator API with the session."""

import ssl
from collections.abc import Mapping
from typing import Any

import httpx
from restante_client import OperatorClient

from restante.demo.world import DemoPerson

SIGN_IN_PATH = "/auth/general"
TIMEOUT_SECONDS = 30.0


def plain_http() -> dict[str, Any]:
    """Options of the demo's HTTP clients: one TLS context, empty because none is used, instead of one for each."""
    return {"verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "trust_env": False}


async def sign_in(url: str, email: str, password: str, http: Mapping[str, Any]) -> httpx.Response:
    """Sign a person in. The answer has the session's cookie."""
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS, **http) as client:
        response = await client.post(SIGN_IN_PATH, json={"action": "login", "email": email, "password": password})
        response.raise_for_status()
        return response


class Operators:
    """One client of the operator API for each person."""

    def __init__(self, url: str, password: str) -> None:
        self.url = url
        self.password = password
        self.http = plain_http()
        self.user_ids: dict[str, int] = {}
        # The cookie of each person's session, `name=value`.
        self.cookies: dict[str, str] = {}
        self._clients: dict[str, OperatorClient] = {}

    def __getitem__(self, key: str) -> OperatorClient:
        return self._clients[key]

    async def sign_in(self, person: DemoPerson) -> None:
        answer = await sign_in(self.url, person.email, self.password, self.http)
        self.user_ids[person.key] = answer.json()["data"]["user"]["id"]
        cookie = self.cookies[person.key] = answer.headers["set-cookie"].partition(";")[0]
        self._clients[person.key] = OperatorClient(self.url, http={**self.http, **_with_cookie(cookie)})

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


def _with_cookie(cookie: str) -> dict[str, Any]:
    async def add_cookie(request: httpx.Request) -> None:
        request.headers["Cookie"] = cookie

    return {"event_hooks": {"request": [add_cookie]}}
