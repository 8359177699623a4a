"""A server that plays a script: each request gets the next step, and is recorded.

A step is a response, a function that makes one, or something that goes wrong: `Lost` (the request arrives, the
response does not) or `Slow`.
After the script every request gets the default step.
"""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Optional, Union

CODES = {400: 5000, 401: 5018, 403: 5022, 404: 5003, 429: 5013, 503: 50300}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Lost:
    """The server reads the request and closes the connection."""


class Slow:
    """The server sends the head of a response and then nothing until the script ends."""


Step = Union[Reply, Lost, Slow, Callable[[Request], Reply]]


def data(value: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps({"data": value}).encode(), named)


def error(status: int, what: str = "no", *, code: int = 0, params: Any = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"code": code or CODES.get(status, 0), "what": what, **({"params": params} if params else {})}
    return Reply(status, json.dumps({"error": body}).encode(), named)


class ScriptedServer:
    def __init__(self, *steps: Step, default: Optional[Step] = None) -> None:
        self.steps = list(steps)
        self.default = default or error(500, "the script is over")
        self.requests: list[Request] = []
        self._ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(self.command, self.path, dict(self.headers.items()), body)
                outer.requests.append(request)
                step: Step = outer.steps.pop(0) if outer.steps else outer.default
                if callable(step):
                    step = step(request)
                if isinstance(step, Lost):
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if isinstance(step, Slow):
                    self.send_response(200)
                    self.send_header("Content-Length", "100")
                    self.end_headers()
                    self.wfile.flush()
                    outer._ended.wait(30)
                    self.close_connection = True
                    return
                assert isinstance(step, Reply)
                self.send_response(step.status)
                for name, value in step.headers.items():
                    self.send_header(name, value)
                if step.status != 204:
                    self.send_header("Content-Length", str(len(step.body)))
                self.end_headers()
                self.wfile.write(step.body)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

            def log_message(self, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def add(self, *steps: Step) -> None:
        self.steps.extend(steps)

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
