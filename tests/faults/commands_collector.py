"""A collector of the command fault test: polls, works, acknowledges, and does all that a collector should not do.

    python -m tests.faults.commands_collector PORT,PORT DEVICE TOKEN SEED

As a process of its own, so that it can be stopped with SIGSTOP while it holds commands, it writes what it saw as JSON
lines, turns well-behaved at a first line on its input and ends at the end of it. In a thread it is the same collector.
"""

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.faults.client import Client, Reply, Unanswered
from tests.faults.commands_records import Acked, Handed
from tests.faults.nodes_client import client_of

COMMANDS = "/api/edge/v1/commands"
LEASE_SECONDS = 1
# Past the end of a lease by any clock.
OVERSLEPT_SECONDS = LEASE_SECONDS + 0.2
ACKS_AT_ONCE = 3
WORK_SECONDS = 0.005
REFUSALS = (401, 409, 410)
WAYS = {"succeeded": 70, "failed": 8, "deferred": 4, "rejected": 4, "running": 6, "forgotten": 6, "overslept": 2}

Note = Callable[[Handed | Acked | str], None]


class Held(NamedTuple):
    command: str
    attempt: int
    nonce: str
    received_at: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.received_at + LEASE_SECONDS


class Collector:
    """What it notes as text is an answer that no healthy server gives."""

    def __init__(self, ports: list[int], device: int, token: str, seed: int, note: Note) -> None:
        self.device = device
        self.calm, self.finish = threading.Event(), threading.Event()
        self._clients = [client_of(ports, token, seed + number) for number in range(ACKS_AT_ONCE)]
        self._note = note
        self._random = random.Random(seed)
        # Held once and never acknowledged: told of when the same command comes again, under its old lease.
        self._forgotten: dict[str, Held] = {}

    def run(self) -> None:
        try:
            while not self.finish.is_set():
                self._poll_and_work()
        except Exception as error:
            self._note(f"collector {self.device} ended: {error!r}")
        finally:
            for client in self._clients:
                client.close()

    def _poll_and_work(self) -> None:
        limit = self._random.choice((1, 3, 10))
        try:
            reply = self._clients[0].ask("GET", f"{COMMANDS}/poll?limit={limit}&wait=1")
        except Unanswered:
            return
        if reply.status != 200:
            self._note(f"poll by {self.device}: {reply.status} {reply.body}")
            return
        now = time.monotonic()
        held = [Held(each["command_id"], each["attempt"], each["nonce"], now) for each in reply.body["commands"]]
        for each in held:
            self._note(Handed(self.device, each.command, each.attempt))
        for each in held:
            self._work_on(each)

    def _work_on(self, held: Held) -> None:
        stale = self._forgotten.pop(held.command, None)
        if stale is not None:
            self._acknowledge(stale, "succeeded")
        way = "succeeded" if self.calm.is_set() else self._random.choices(list(WAYS), list(WAYS.values()))[0]
        time.sleep(WORK_SECONDS)
        if way == "forgotten":
            self._forgotten[held.command] = held
            return
        if way == "running":
            self._acknowledge(held, "running")
        if way == "overslept":
            time.sleep(OVERSLEPT_SECONDS)
        self._acknowledge(held, "succeeded" if way in ("running", "overslept") else way)

    def _acknowledge(self, held: Held, status: str) -> None:
        """Send the ACK several times at once, and all of it again until there is an answer."""
        body: dict[str, Any] = {
            "status": status,
            "result_code": 0,
            "message": f"attempt {held.attempt} by {self.device}",
            "nonce": held.nonce,
            "retry_after_sec": 1,
        }
        if self._random.random() < 0.5:
            body["attempt"] = held.attempt
        is_late = held.is_over
        while not self._send_at_once(held, body, is_late):
            pass

    def _send_at_once(self, held: Held, body: dict[str, Any], is_late: bool) -> bool:
        replies: list[Reply | None] = []
        sent = [client for client in self._clients if self._is_sent(client, held, body)]
        for client in sent:
            try:
                replies.append(client.finish())
            except Unanswered:
                replies.append(None)
        replies += [None] * (len(self._clients) - len(sent))
        for reply in replies:
            self._note_ack(held, body["status"], is_late, reply)
        return any(reply is not None for reply in replies)

    def _is_sent(self, client: Client, held: Held, body: dict[str, Any]) -> bool:
        try:
            client.begin("POST", f"{COMMANDS}/{held.command}/ack", body)
        except Unanswered:
            return False
        return True

    def _note_ack(self, held: Held, status: str, is_late: bool, reply: Reply | None) -> None:
        ack = Acked(self.device, held.command, held.attempt, status, is_late, None)
        if reply is not None:
            said = reply.body or {}
            ack = ack._replace(
                code=reply.status,
                is_replayed=said.get("replayed", False),
                state=said.get("command_status"),
                error=said.get("error"),
            )
            if reply.status != 200 and reply.status not in REFUSALS:
                self._note(f"{ack}: {said}")
        self._note(ack)


def write_line(noted: Handed | Acked | str) -> None:
    line = [noted] if isinstance(noted, str) else [type(noted).__name__, *noted]
    sys.stdout.write(json.dumps(line) + "\n")


def read_line(line: str) -> Handed | Acked | str:
    kind, *values = json.loads(line)
    if not values:
        return str(kind)
    return Handed(*values) if kind == Handed.__name__ else Acked(*values)


def obey(collector: Collector) -> None:
    sys.stdin.readline()
    collector.calm.set()
    sys.stdin.read()
    collector.finish.set()


if __name__ == "__main__":
    ports, device, token, seed = sys.argv[1:]
    told = Collector([int(port) for port in ports.split(",")], int(device), token, int(seed), write_line)
    threading.Thread(target=obey, args=(told,), daemon=True).start()
    told.run()
