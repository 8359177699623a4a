"""A client of the events fault test: it polls, acknowledges most events, reports errors for some, ignores some, and
repeats requests."""

import random
import threading
from collections.abc import Callable

from tests.faults.client import NoResponse
from tests.faults.events.records import AckSent, Delivered, Record
from tests.faults.nodes.balanced_client import client_for

ERROR = {"err": "jwtIss", "description": "test"}

RecordFunction = Callable[[Record | str], None]


class EventClient:
    """A record that is a text reports a response that a correct server never sends, or an error of the client."""

    def __init__(self, ports: list[int], client: int, token: str, seed: int, record: RecordFunction) -> None:
        self.client = client
        self.calm, self.finish = threading.Event(), threading.Event()
        self._connection = client_for(ports, token, seed)
        self._record = record
        self._random = random.Random(seed)
        self._n = 0

    def run(self) -> None:
        ack: list[str] = []
        errs: list[str] = []
        try:
            while not self.finish.is_set():
                ack, errs = self._poll(ack, errs)
        except Exception as error:
            self._record(f"client {self.client} ended: {error!r}")
        finally:
            self._connection.close()

    def _poll(self, ack: list[str], errs: list[str]) -> tuple[list[str], list[str]]:
        """Poll once; returns the acknowledgements and errors for the next poll."""
        self._n += 1
        body: dict[str, object] = {"maxEvents": self._random.choice([1, 5, 20]), "returnImmediately": True}
        if ack or errs:
            body |= {"ack": ack, "setErrs": dict.fromkeys(errs, ERROR)}
        headers = {} if self._random.random() < 0.8 else {"X-Unusual": "1"}
        try:
            response = self._connection.request("POST", "/events", body, headers=headers)
        except NoResponse:
            self._record_acks(ack, errs, has_response=False)
            # The poll may have had its effect or not: most are repeated, some are not.
            return (ack, errs) if self.calm.is_set() or self._random.random() < 0.8 else ([], [])
        self._record_acks(ack, errs, has_response=True)
        if response.status != 200:
            self._record(f"client {self.client} got the response {response.status}: {response.body}")
            return [], []
        sets = response.body["sets"]
        for position, (jti, token) in enumerate(sets.items()):
            self._record(Delivered(self.client, self._n, position, jti, token))
        return self._choose_acks(list(sets))

    def _record_acks(self, ack: list[str], errs: list[str], *, has_response: bool) -> None:
        for jti in ack:
            self._record(AckSent(self.client, self._n, jti, False, has_response))
        for jti in errs:
            self._record(AckSent(self.client, self._n, jti, True, has_response))

    def _choose_acks(self, jtis: list[str]) -> tuple[list[str], list[str]]:
        ack, errs = [], []
        for jti in jtis:
            chance = self._random.random()
            if chance < 0.05:
                errs.append(jti)
            elif chance < 0.75 or self.calm.is_set():
                ack.append(jti)
        return ack, errs
