"""A plain blocking client: one connection, kept open, made again when it broke.

It tells apart what the checker must tell apart: a request that was never sent did not happen, one that was sent and
not answered may have happened, and one that was answered did what the answer says.
"""

import base64
import http.client
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPMessage
from typing import Any, NamedTuple

from tests.faults.server_process import PATIENCE_SECONDS, Prepared

UPDATES = "/apiv1/devices/self/updates"


class Unanswered(Exception):
    """The request was sent and its answer never came: it may or may not have happened."""


class Reply(NamedTuple):
    status: int
    headers: HTTPMessage
    body: Any

    @property
    def data(self) -> Any:
        assert 200 <= self.status < 300, f"{self.status}: {self.body}"
        return self.body["data"] if self.body is not None else None


class Client:
    def __init__(self, port: int, bearer: str) -> None:
        self._port = port
        self._bearer = bearer
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Reply:
        self.begin(method, path, body, headers=headers)
        return self.finish()

    def begin(self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> None:
        """Send a request whose answer `finish` waits for: so several clients can ask at once."""
        connection = self._connected()
        sent = {"Authorization": f"Bearer {self._bearer}", **(headers or {})}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        with self._unanswered_if_broken():
            connection.request(method, path, payload, sent)

    def finish(self) -> Reply:
        if self._connection is None:
            raise Unanswered("nothing was sent")
        with self._unanswered_if_broken():
            answer = self._connection.getresponse()
            raw = answer.read()
        return Reply(answer.status, answer.headers, json.loads(raw) if raw else None)

    @contextmanager
    def _unanswered_if_broken(self) -> Iterator[None]:
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unanswered(repr(error)) from error

    def ask_until_answered(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """For requests that may be repeated: again and again, whatever becomes of the server meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.ask(method, path, body, headers=headers)
            except Unanswered:
                if time.monotonic() > deadline:
                    raise

    def poll(self, cursor: str | None, wait: int = 0, limit: int = 20, *, fast: bool = True) -> Reply:
        """Ask for updates: by the fast lane, or with a header that only the application's way understands."""
        headers = {} if cursor is None else {"If-None-Match": cursor}
        if not fast:
            headers["X-Unusual"] = "1"
        return self.ask("GET", f"{UPDATES}?limit={limit}&wait={wait}", headers=headers)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> http.client.HTTPConnection:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
            try:
                connection.connect()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
                continue
            self._connection = connection
        return self._connection


class DeviceHandle(NamedTuple):
    id: int
    token: str


def register(operator: Client, prepared: Prepared) -> DeviceHandle:
    registered = operator.ask(
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
