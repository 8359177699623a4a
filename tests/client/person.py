"""The person who owns the devices of these tests, signed in."""

from typing import Any

import httpx
from restante_client import DeviceCode
from restante_client.testing import USER_EMAIL, USER_PASSWORD, LocalServer


class Person:
    def __init__(self, server: LocalServer) -> None:
        self.http = httpx.Client(base_url=server.url, headers={"Origin": server.url}, timeout=30)
        self.post("/auth/general", action="login", email=USER_EMAIL, password=USER_PASSWORD)
        self.base = f"/apiv1/users/{server.user_id}"

    def post(self, path: str, **body: Any) -> Any:
        response = self.http.post(path, json=body)
        assert response.status_code < 300, response.text
        return response.json().get("data") if response.content else None

    def put(self, path: str, **body: Any) -> Any:
        response = self.http.put(path, json=body)
        assert response.status_code < 300, response.text
        return response.json()["data"]

    def approve(self, code: DeviceCode) -> None:
        self.post("/auth/device", action="device_verify", user_code=code.user_code, approve=True)


def add_account(person: Person, ca_id: int) -> Any:
    """An account that issues from this authority."""
    return person.post(
        f"{person.base}/acme-accounts", name="account", email="a@example.com", provider="self", ca_id=ca_id
    )
