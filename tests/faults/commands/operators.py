"""The operators of the commands fault test: one creates commands, another approves, denies and cancels them."""

import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.faults.client import Client, NoResponse
from tests.faults.commands.records import Created, Decision

COMMANDS = "/api/edge/v1/admin/commands"
PACE_SECONDS = 0.004
NEEDING_APPROVAL = "POWER_MODE"
TYPES: dict[str, dict[str, Any]] = {
    "MINER_RESTART": {},
    "HASHING_ENABLE": {},
    "SET_FAN": {"speed": 70},
    NEEDING_APPROVAL: {"mode": "LOW"},
}
KEYS_PER_SITE = 3
BATCH_COMMANDS = 5
SHORT_TTL_SECONDS = 1

RecordFunction = Callable[[Created | Decision | str], None]
# Commands that were created recently, for the other operator to decide on.
RecentCommands = deque[Created]


class CommandCreator(threading.Thread):
    """Creates commands until the stop event is set. Idempotency keys allow it to repeat requests until a response."""

    def __init__(
        self,
        client: Client,
        miners: dict[int, list[int]],
        recent: RecentCommands,
        record: RecordFunction,
        stop: threading.Event,
    ) -> None:
        super().__init__(name="command creator", daemon=True)
        self._client = client
        self._miners = miners
        self._recent = recent
        self._record = record
        self._stopping = stop
        self._random = random.Random(len(miners))

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._create(self._random.choice(list(self._miners)))
                time.sleep(PACE_SECONDS)
        except Exception as error:
            self._record(f"{self.name} ended: {error!r}")
        finally:
            self._client.close()

    def _create(self, site_id: int) -> None:
        """Create one command, perhaps with a dedupe key or a short TTL, or several at once."""
        if self._random.random() < 0.2:
            body: dict[str, Any] = {"commands": [self._command(site_id) for _ in range(BATCH_COMMANDS)]}
        else:
            body = self._command(site_id)
            if self._random.random() < 0.3:
                body["dedupe_key"] = f"site {site_id}, key {self._random.randrange(KEYS_PER_SITE)}"
            if self._random.random() < 0.1:
                body["ttl_sec"] = SHORT_TTL_SECONDS
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        response = self._client.request_until_answered("POST", COMMANDS, body, headers=headers)
        if response.status == 201:
            for each in response.body.get("commands", [response.body]):
                created = Created(each["command_id"], each["status"])
                self._record(created)
                self._recent.append(created)
        elif response.status != 409 or response.body["error"] != "DUPLICATE_ACTIVE":
            self._record(f"creating {body}: {response.status} {response.body}")

    def _command(self, site_id: int) -> dict[str, Any]:
        command_type = self._random.choice(list(TYPES))
        return {
            "site_id": site_id,
            "miner_id": self._random.choice(self._miners[site_id]),
            "command_type": command_type,
            "params": TYPES[command_type],
            "priority": self._random.choice((0, 5)),
        }


class CommandApprover(threading.Thread):
    """Approves most commands that need approval, denies the others, and cancels some of all commands."""

    def __init__(self, client: Client, recent: RecentCommands, record: RecordFunction, stop: threading.Event) -> None:
        super().__init__(name="command approver", daemon=True)
        self._client = client
        self._recent = recent
        self._record = record
        self._stopping = stop
        self._random = random.Random(0)

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._recent:
                    self._process(self._recent.popleft())
                else:
                    time.sleep(PACE_SECONDS)
        except Exception as error:
            self._record(f"{self.name} ended: {error!r}")
        finally:
            self._client.close()

    def _process(self, created: Created) -> None:
        if created.status == "pending_approval":
            self._decide(created.command, *self._random.choice([("approve", "approved")] * 3 + [("deny", "denied")]))
        if self._random.random() < 0.1:
            self._decide(created.command, "cancel", "cancelled")

    def _decide(self, command: str, verb: str, event: str) -> None:
        try:
            response = self._client.request("POST", f"{COMMANDS}/{command}/{verb}")
        except NoResponse:
            return
        if response.status == 200:
            self._record(Decision(command, event))
        elif response.status not in (409, 410):
            self._record(f"{verb} {command}: {response.status} {response.body}")

    def deny_rest(self) -> None:
        """Deny the commands that could not be approved because another active command had their dedupe key."""
        path = f"{COMMANDS}?status=pending_approval&limit=500"
        while items := self._client.request("GET", path).body["items"]:
            for item in items:
                self._decide(item["command_id"], "deny", "denied")
        self._client.close()
