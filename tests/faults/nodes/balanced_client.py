"""Clients of several nodes that behave like a load balancer: they connect to a node that accepts connections."""

import random
import time
from collections.abc import Callable, Mapping

from tests.faults.client import Client, NoResponse, Response, SignedIn

UNAVAILABLE = 503
AFTER_UNAVAILABLE_SECONDS = 0.05
# After so many responses the client reconnects to a random node, so that restarted nodes get load again.
RESPONSES_MAX = 20


class MovingClient(Client):
    """Reconnects to another node when its node does not accept connections."""

    def __init__(self, ports: list[int], bearer: str | SignedIn, seed: int = 0) -> None:
        super().__init__(ports[seed % len(ports)], bearer)
        self._ports = ports
        self._random = random.Random(seed)
        self._responses = 0

    def receive_response(self) -> Response:
        response = super().receive_response()
        self._responses += 1
        if self._responses % RESPONSES_MAX == 0:
            self.close()
            self._port = self._random.choice(self._ports)
        return response

    def port_refused(self) -> None:
        self._port = self._random.choice(self._ports)


def client_for(ports: list[int], bearer: str | SignedIn, seed: int = 0) -> Client:
    """A client of one server or of several nodes; it returns every response, also a 503 without a database."""
    return Client(ports[0], bearer) if len(ports) == 1 else MovingClient(ports, bearer, seed)


class BalancedClient(MovingClient):
    """Treats a 503 as no response: the node lost its database, and with it the outcome.

    After a change without a response it calls `wait_for_transactions`, so that the lost request, if it is still being
    processed, cannot take effect after the next one."""

    def __init__(self, ports: list[int], bearer: str, wait_for_transactions: Callable[[], None], seed: int = 0) -> None:
        super().__init__(ports, bearer, seed)
        self._wait_for_transactions = wait_for_transactions

    def request(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Response:
        try:
            response = super().request(method, path, body, headers=headers)
        except NoResponse:
            self._wait_if_change(method)
            raise
        if response.status == UNAVAILABLE:
            self.close()
            time.sleep(AFTER_UNAVAILABLE_SECONDS)
            self._wait_if_change(method)
            raise NoResponse(f"503: {response.body}")
        return response

    def _wait_if_change(self, method: str) -> None:
        if method != "GET":
            self._wait_for_transactions()
