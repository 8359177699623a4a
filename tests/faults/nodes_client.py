"""Clients in front of several nodes, as a load balancer is: they go to one that answers."""

import http.client
import random
import time
from collections.abc import Callable, Mapping

from tests.faults.client import Client, Reply, Unanswered
from tests.faults.server_process import PATIENCE_SECONDS

UNAVAILABLE = 503
AFTER_REFUSAL_SECONDS = 0.05
# After so many answers a connection is given up for one to any node, so that none is spared for having been away.
ANSWERS_MAX = 20


class MovingClient(Client):
    def __init__(self, ports: list[int], bearer: str, seed: int = 0) -> None:
        super().__init__(ports[seed % len(ports)], bearer)
        self._ports = ports
        self._random = random.Random(seed)
        self._answers = 0

    def finish(self) -> Reply:
        reply = super().finish()
        self._answers += 1
        if self._answers % ANSWERS_MAX == 0:
            self.close()
            self._port = self._random.choice(self._ports)
        return reply

    def _connected(self) -> http.client.HTTPConnection:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
            try:
                connection.connect()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                self._port = self._random.choice(self._ports)
                time.sleep(0.02)
                continue
            self._connection = connection
        return self._connection


def client_of(ports: list[int], bearer: str, seed: int = 0) -> Client:
    """For whom every answer counts, a refusal for want of a database too: of one server, or of any of several nodes."""
    return Client(ports[0], bearer) if len(ports) == 1 else MovingClient(ports, bearer, seed)


class BalancedClient(MovingClient):
    """Takes a 503 for no answer: the node had lost its database, and with it the outcome.

    After no answer it has the database settle, so that what it does next is not overtaken by what it did before."""

    def __init__(self, ports: list[int], bearer: str, settle: Callable[[], None], seed: int = 0) -> None:
        super().__init__(ports, bearer, seed)
        self._settle = settle

    def ask(self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Reply:
        try:
            reply = super().ask(method, path, body, headers=headers)
        except Unanswered:
            self._settle_if_changing(method)
            raise
        if reply.status == UNAVAILABLE:
            self.close()
            time.sleep(AFTER_REFUSAL_SECONDS)
            self._settle_if_changing(method)
            raise Unanswered(f"503: {reply.body}")
        return reply

    def _settle_if_changing(self, method: str) -> None:
        if method != "GET":
            self._settle()
