"""The operators of the command fault test: one kind makes commands, the other approves, denies and cancels them."""

import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.faults.client import Client, Unanswered
from tests.faults.commands_records import Decided, Made

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
MADE_AT_ONCE = 5
SHORT_TTL_SECONDS = 1

Note = Callable[[Made | Decided | str], None]
# What was made a moment ago, for the other kind to decide on.
Recent = deque[Made]


class Maker(threading.Thread):
    """Makes commands until told to stop: each with an idempotency key, so that it can ask until it is answered."""

    def __init__(
        self, client: Client, miners: dict[int, int], recent: Recent, note: Note, stop: threading.Event
    ) -> None:
        super().__init__(name="maker", daemon=True)
        self._client = client
        self._miners = miners
        self._recent = recent
        self._note = note
        self._stopping = stop
        self._random = random.Random(len(miners))

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._make(self._random.choice(list(self._miners)))
                time.sleep(PACE_SECONDS)
        except Exception as error:
            self._note(f"{self.name} ended: {error!r}")
        finally:
            self._client.close()

    def _make(self, site_id: int) -> None:
        """One command, which may have a dedupe key or little time, or several at once."""
        if self._random.random() < 0.2:
            body: dict[str, Any] = {"commands": [self._wish(site_id) for _ in range(MADE_AT_ONCE)]}
        else:
            body = self._wish(site_id)
            if self._random.random() < 0.3:
                body["dedupe_key"] = f"site {site_id}, key {self._random.randrange(KEYS_PER_SITE)}"
            if self._random.random() < 0.1:
                body["ttl_sec"] = SHORT_TTL_SECONDS
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        reply = self._client.ask_until_answered("POST", COMMANDS, body, headers=headers)
        if reply.status == 201:
            for each in reply.body.get("commands", [reply.body]):
                made = Made(each["command_id"], each["status"])
                self._note(made)
                self._recent.append(made)
        elif reply.status != 409 or reply.body["error"] != "DUPLICATE_ACTIVE":
            self._note(f"making {body}: {reply.status} {reply.body}")

    def _wish(self, site_id: int) -> dict[str, Any]:
        command_type = self._random.choice(list(TYPES))
        return {
            "site_id": site_id,
            "miner_id": self._miners[site_id],
            "command_type": command_type,
            "params": TYPES[command_type],
            "priority": self._random.choice((0, 5)),
        }


class Decider(threading.Thread):
    """Approves most of what waits for it, denies the rest, and cancels some of everything."""

    def __init__(self, client: Client, recent: Recent, note: Note, stop: threading.Event) -> None:
        super().__init__(name="decider", daemon=True)
        self._client = client
        self._recent = recent
        self._note = note
        self._stopping = stop
        self._random = random.Random(0)

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._recent:
                    self._look_at(self._recent.popleft())
                else:
                    time.sleep(PACE_SECONDS)
        except Exception as error:
            self._note(f"{self.name} ended: {error!r}")
        finally:
            self._client.close()

    def _look_at(self, made: Made) -> None:
        if made.status == "pending_approval":
            self._decide(made.command, *self._random.choice([("approve", "approved")] * 3 + [("deny", "denied")]))
        if self._random.random() < 0.1:
            self._decide(made.command, "cancel", "cancelled")

    def _decide(self, command: str, verb: str, event: str) -> None:
        try:
            reply = self._client.ask("POST", f"{COMMANDS}/{command}/{verb}")
        except Unanswered:
            return
        if reply.status == 200:
            self._note(Decided(command, event))
        elif reply.status not in (409, 410):
            self._note(f"{verb} {command}: {reply.status} {reply.body}")

    def deny_rest(self) -> None:
        """What nobody could approve, because another command had its dedupe key, is denied in the end."""
        path = f"{COMMANDS}?status=pending_approval&limit=500"
        while items := self._client.ask("GET", path).body["items"]:
            for item in items:
                self._decide(item["command_id"], "deny", "denied")
        self._client.close()
