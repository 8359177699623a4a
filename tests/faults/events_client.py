"""A client of the event fault test: polls, acknowledges most, calls some wrong, forgets some, repeats itself."""

import random
import threading
from collections.abc import Callable

from tests.faults.client import Unanswered
from tests.faults.events_records import Got, Record, Said
from tests.faults.nodes_client import client_of

ERROR = {"err": "jwtIss", "description": "for the sake of the test"}

Note = Callable[[Record | str], None]


class EventClient:
    """What it notes as text is an answer that no healthy server gives."""

    def __init__(self, ports: list[int], client: int, token: str, seed: int, note: Note) -> None:
        self.client = client
        self.calm, self.finish = threading.Event(), threading.Event()
        self._connection = client_of(ports, token, seed)
        self._note = note
        self._random = random.Random(seed)
        self._n = 0

    def run(self) -> None:
        ack: list[str] = []
        errs: list[str] = []
        try:
            while not self.finish.is_set():
                ack, errs = self._poll(ack, errs)
        except Exception as error:
            self._note(f"client {self.client} ended: {error!r}")
        finally:
            self._connection.close()

    def _poll(self, ack: list[str], errs: list[str]) -> tuple[list[str], list[str]]:
        """One poll; what the next one says."""
        self._n += 1
        body: dict[str, object] = {"maxEvents": self._random.choice([1, 5, 20]), "returnImmediately": True}
        if ack or errs:
            body |= {"ack": ack, "setErrs": dict.fromkeys(errs, ERROR)}
        headers = {} if self._random.random() < 0.8 else {"X-Unusual": "1"}
        try:
            reply = self._connection.ask("POST", "/events", body, headers=headers)
        except Unanswered:
            self._say(ack, errs, is_answered=False)
            # It may have happened, or not: most say it again, some never come back to it.
            return (ack, errs) if self.calm.is_set() or self._random.random() < 0.8 else ([], [])
        self._say(ack, errs, is_answered=True)
        if reply.status != 200:
            self._note(f"client {self.client} was answered {reply.status}: {reply.body}")
            return [], []
        sets = reply.body["sets"]
        for position, (jti, token) in enumerate(sets.items()):
            self._note(Got(self.client, self._n, position, jti, token))
        return self._judged(list(sets))

    def _say(self, ack: list[str], errs: list[str], *, is_answered: bool) -> None:
        for jti in ack:
            self._note(Said(self.client, self._n, jti, False, is_answered))
        for jti in errs:
            self._note(Said(self.client, self._n, jti, True, is_answered))

    def _judged(self, jtis: list[str]) -> tuple[list[str], list[str]]:
        ack, errs = [], []
        for jti in jtis:
            chance = self._random.random()
            if chance < 0.05:
                errs.append(jti)
            elif chance < 0.75 or self.calm.is_set():
                ack.append(jti)
        return ack, errs
