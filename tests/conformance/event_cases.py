"""The conformance cases of event polling: each is a short story told in steps, read from files that say under which
settings they hold.

`{name}` in a step stands for what a step before it has saved of its answer. Every case has a client of its own,
and the ids of its events are the case's own, made unlike those of others by the runner.
"""

from typing import Any, Literal

import msgspec

# The one whose inbox it is, another client, one without the scope, one that was suspended, and tokens that are none.
Caller = Literal["client", "other", "unscoped", "expired", "suspended", "nobody", "garbage", "device", "admin"]


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What the answer must be, and what came of the request. A text that begins with `~` is a pattern for the whole."""

    status: int = 200
    # The events that were handed out, in order, each with the bytes it was signed to.
    sets: list[str] | None = None
    more: bool | None = None
    json: Any = None
    text: str | None = None
    code: str | None = None
    path: str | None = None
    headers: dict[str, str] = {}
    absent: list[str] = []
    # Whether anything in the inboxes is different afterwards.
    changes: bool | None = None
    # How events stand afterwards.
    states: dict[str, str] = {}


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """One thing that happens: exactly one of the first six, or a poll of what `json` or `body` says."""

    ready: list[str] | None = None
    unsigned: list[str] | None = None
    sign: list[str] | None = None
    release: list[str] | None = None
    advance: float | None = None
    suspend: bool | None = None

    of: Literal["client", "other"] = "client"
    by: Caller = "client"
    request: str = "POST /events"
    json: Any = None
    body: str | None = None
    # Without a Content-Type of the step's own, there is one exactly if there is a body.
    headers: list[tuple[str, str]] = []
    # Made ready while the poll waits, or the wait's end.
    meanwhile: list[str] = []
    times_out: bool = False
    save: dict[str, str] = {}
    times: int = 1
    hot: bool = True
    expected: Expected = msgspec.field(default_factory=Expected)

    def is_request(self) -> bool:
        others = (self.ready, self.unsigned, self.sign, self.release, self.advance, self.suspend)
        return all(each is None for each in others)

    def is_hot(self) -> bool:
        return self.hot


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    why: str
    step: list[Step]


class CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    case: list[Case]
    settings: dict[str, Any] = {}
