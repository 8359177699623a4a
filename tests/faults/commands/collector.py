"""A collector of the commands fault test: it polls, works and acknowledges, and also misbehaves on purpose.

    python -m tests.faults.commands.collector PORT,PORT DEVICE TOKEN SEED

It runs in a thread, or as a process that SIGSTOP can pause while it holds commands. The process writes its records as
JSON lines to stdout. It stops misbehaving when it reads a first line from stdin, and exits at the end of stdin.
"""

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.faults.client import Client, NoResponse, Response
from tests.faults.commands.records import AckSent, Dispatched
from tests.faults.nodes.balanced_client import client_for

COMMANDS = "/api/edge/v1/commands"
LEASE_SECONDS = 1
# Longer than a lease by any clock.
PAST_LEASE_SECONDS = LEASE_SECONDS + 0.2
PARALLEL_ACKS = 3
WORK_SECONDS = 0.005
REFUSALS = (401, 409, 410)
BEHAVIOURS = {"succeeded": 70, "failed": 8, "deferred": 4, "rejected": 4, "running": 6, "unacknowledged": 6, "late": 2}

RecordFunction = Callable[[Dispatched | AckSent | str], None]


class HeldCommand(NamedTuple):
    command: str
    attempt: int
    nonce: str
    received_at: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.received_at + LEASE_SECONDS


class Collector:
    """A record that is a text reports a response that a correct server never sends, or an error of the collector."""

    def __init__(self, ports: list[int], device: int, token: str, seed: int, record: RecordFunction) -> None:
        self.device = device
        self.calm, self.finish = threading.Event(), threading.Event()
        self._clients = [client_for(ports, token, seed + number) for number in range(PARALLEL_ACKS)]
        self._record = record
        self._random = random.Random(seed)
        self.unacknowledged_count = 0
        # Commands that it did not acknowledge: when one is dispatched again, it first sends an ACK under the old lease.
        self._unacknowledged: dict[str, HeldCommand] = {}

    def run(self) -> None:
        try:
            while not self.finish.is_set():
                self._poll_and_work()
        except Exception as error:
            self._record(f"collector {self.device} ended: {error!r}")
        finally:
            for client in self._clients:
                client.close()

    def _poll_and_work(self) -> None:
        limit = self._random.choice((1, 3, 10))
        try:
            response = self._clients[0].request("GET", f"{COMMANDS}/poll?limit={limit}&wait=1")
        except NoResponse:
            return
        if response.status != 200:
            self._record(f"poll by {self.device}: {response.status} {response.body}")
            return
        now = time.monotonic()
        held = [
            HeldCommand(each["command_id"], each["attempt"], each["nonce"], now) for each in response.body["commands"]
        ]
        for each in held:
            self._record(Dispatched(self.device, each.command, each.attempt))
        for each in held:
            self._work_on(each)

    def _work_on(self, held: HeldCommand) -> None:
        stale = self._unacknowledged.pop(held.command, None)
        if stale is not None:
            self._acknowledge(stale, "succeeded")
        chosen = self._random.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))[0]
        behaviour = "succeeded" if self.calm.is_set() else chosen
        time.sleep(WORK_SECONDS)
        if behaviour == "unacknowledged":
            self._unacknowledged[held.command] = held
            self.unacknowledged_count += 1
            return
        if behaviour == "running":
            self._acknowledge(held, "running")
        if behaviour == "late":
            time.sleep(PAST_LEASE_SECONDS)
        self._acknowledge(held, "succeeded" if behaviour in ("running", "late") else behaviour)

    def _acknowledge(self, held: HeldCommand, status: str) -> None:
        """Send the ACK several times in parallel, and repeat this until a response comes."""
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
        while not self._send_in_parallel(held, body, is_late):
            pass

    def _send_in_parallel(self, held: HeldCommand, body: dict[str, Any], is_late: bool) -> bool:
        responses: list[Response | None] = []
        sent = [client for client in self._clients if self._send(client, held, body)]
        for client in sent:
            try:
                responses.append(client.receive_response())
            except NoResponse:
                responses.append(None)
        responses += [None] * (len(self._clients) - len(sent))
        for response in responses:
            self._record_ack(held, body["status"], is_late, response)
        return any(response is not None for response in responses)

    def _send(self, client: Client, held: HeldCommand, body: dict[str, Any]) -> bool:
        try:
            client.send_request("POST", f"{COMMANDS}/{held.command}/ack", body)
        except NoResponse:
            return False
        return True

    def _record_ack(self, held: HeldCommand, status: str, is_late: bool, response: Response | None) -> None:
        ack = AckSent(self.device, held.command, held.attempt, status, is_late, None)
        if response is not None:
            body = response.body or {}
            ack = ack._replace(
                code=response.status,
                is_replayed=body.get("replayed", False),
                state=body.get("command_status"),
                error=body.get("error"),
            )
            if response.status != 200 and response.status not in REFUSALS:
                self._record(f"{ack}: {body}")
        self._record(ack)


def write_line(record: Dispatched | AckSent | str) -> None:
    line = [record] if isinstance(record, str) else [type(record).__name__, *record]
    sys.stdout.write(json.dumps(line) + "\n")


def read_line(line: str) -> Dispatched | AckSent | str:
    kind, *values = json.loads(line)
    if not values:
        return str(kind)
    return Dispatched(*values) if kind == Dispatched.__name__ else AckSent(*values)


def follow_stdin(collector: Collector) -> None:
    sys.stdin.readline()
    collector.calm.set()
    sys.stdin.read()
    collector.finish.set()


if __name__ == "__main__":
    ports, device, token, seed = sys.argv[1:]
    collector = Collector([int(port) for port in ports.split(",")], int(device), token, int(seed), write_line)
    threading.Thread(target=follow_stdin, args=(collector,), daemon=True).start()
    collector.run()
