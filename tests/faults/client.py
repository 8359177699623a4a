"""A plain blocking HTTP client: one connection, kept open and reconnected when it breaks.

It separates three cases for the checkers: a request that was never sent had no effect; a request that was sent and got
no response may have had its effect (`NoResponse`); a request with a response did what the response says.
"""

import base64
import http.client
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPMessage
from typing import Any

from restante.web.access import SESSION_COOKIE
from tests.faults.server_process import TIMEOUT_SECONDS, PreparedData

UPDATES = "/apiv1/devices/self/updates"


class NoResponse(Exception):
    """The request was sent and no response came: it may or may not have had its effect."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: HTTPMessage
    body: Any

    @property
    def data(self) -> Any:
        assert 200 <= self.status < 300, f"{self.status}: {self.body}"
        return self.body["data"] if self.body is not None else None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The session of a person, instead of a bearer token."""

    session: str


class Client:
    def __init__(self, port: int, bearer: str | SignedIn) -> None:
        self._port = port
        self._credentials = (
            {"Cookie": f"{SESSION_COOKIE}={bearer.session}"}
            if isinstance(bearer, SignedIn)
            else {"Authorization": f"Bearer {bearer}"}
        )
        self._connection: http.client.HTTPConnection | None = None

    def request(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Response:
        self.send_request(method, path, body, headers=headers)
        return self.receive_response()

    def send_request(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a request; `receive_response` waits for its response. So several clients can send at the same time."""
        connection = self._connected()
        sent = {**self._credentials, **(headers or {})}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        with self._no_response_if_broken():
            connection.request(method, path, payload, sent)

    def receive_response(self) -> Response:
        if self._connection is None:
            raise NoResponse("no request was sent")
        with self._no_response_if_broken():
            received = self._connection.getresponse()
            raw = received.read()
        return Response(received.status, received.headers, json.loads(raw) if raw else None)

    @contextmanager
    def _no_response_if_broken(self) -> Iterator[None]:
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise NoResponse(repr(error)) from error

    def request_until_answered(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Repeat an idempotent request until a response comes, also while the server restarts."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return self.request(method, path, body, headers=headers)
            except NoResponse:
                if time.monotonic() > deadline:
                    raise

    def poll(self, cursor: str | None, wait: int = 0, limit: int = 20, *, fast_lane: bool = True) -> Response:
        """Poll for updates: through the fast lane, or with a header that the fast lane passes on to the application."""
        headers = {} if cursor is None else {"If-None-Match": cursor}
        if not fast_lane:
            headers["X-Unusual"] = "1"
        return self.request("GET", f"{UPDATES}?limit={limit}&wait={wait}", headers=headers)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> http.client.HTTPConnection:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self._connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS)
            try:
                connection.connect()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                self.port_refused()
                time.sleep(0.02)
                continue
            self._connection = connection
        return self._connection

    def port_refused(self) -> None:
        """Called when the server does not accept a connection: the place to choose another one."""


@dataclass(frozen=True, slots=True)
class DeviceHandle:
    id: int
    token: str


def register(operator: Client, prepared: PreparedData) -> DeviceHandle:
    """Register a new device of the prepared user."""
    registered = operator.request(
        "POST",
        f"/apiv1/users/{prepared.user_id}/devices",
        {
            "device_public_id": str(uuid.uuid4()),
            "dev_pk": base64.b64encode(os.urandom(32)).decode(),
            "platform": "linux",
            "name": "a device",
        },
    ).data
    return DeviceHandle(registered["device"]["id"], registered["session"]["access_token"])
