"""The conformance cases of device updates: how things stand, one request, and what the answer must be."""

from typing import Any, Literal

import msgspec

PATH = "/apiv1/devices/self/updates"


class LoggedSignal(msgspec.Struct, forbid_unknown_fields=True):
    at: str
    type: str
    ts_ms: int
    ref: dict[str, Any]


class OwnSignal(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    ts_ms: int
    ref: dict[str, Any]


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """How things stand: the device's log, as signals or as bare positions, and all that is not as usual."""

    log: list[LoggedSignal | str] = []
    trimmed: str = "0-0"
    clock_ms: int = 1_736_990_000_000
    device: Literal["active", "revoked"] = "active"
    token: str = "good"
    polls_before: int = 0
    is_log_out_of_reach: bool = False
    published_while_waiting: list[OwnSignal] = []


class Request(msgspec.Struct, forbid_unknown_fields=True):
    method: str = "GET"
    path: str = PATH
    query: str | None = None
    # `{token}` stands for the token; without an Authorization header here, the usual one is sent.
    headers: list[tuple[str, str]] = []
    body: str = ""


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What the answer must be. A value that begins with `~` is a pattern for the whole of it."""

    status: int
    headers: dict[str, str] = {}
    absent: list[str] = []
    body: str | None = None
    json: Any = None
    code: int | None = None
    what: str | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    why: str
    expected: Expected
    given: Given = msgspec.field(default_factory=Given)
    request: Request = msgspec.field(default_factory=Request)
    # Whether the fast lane must have answered it; else it must not have.
    hot: bool = False
    times: int = 1

    @property
    def step(self) -> "list[Case]":
        """The one thing that happens."""
        return [self]

    def is_request(self) -> bool:
        return True

    def is_hot(self) -> bool:
        return self.hot


class CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    case: list[Case]
    settings: dict[str, Any] = msgspec.field(default_factory=lambda: {"poll_burst": 3, "poll_rate_per_second": "0.001"})
