"""The conformance cases of edge commands: each is a short story told in steps, read from files that say under which
settings they hold.

`{name}` in a step stands for what has that name: the site's things (`site`, `zone`, `miner`, `device` …), commands by
the name they were made under, and whatever a step has saved of its answer.
"""

from typing import Any, Literal

import msgspec

BASE = "/api/edge/v1"

Caller = Literal[
    "collector",
    "second",
    "zoned",
    "foreign",
    "revoked",
    "nobody",
    "garbage",
    "device",
    "viewer",
    "operator",
    "approver",
    "admin",
]


class Made(msgspec.Struct, forbid_unknown_fields=True):
    """A command that the operator makes, not through the wire; `id` gives it that very id."""

    name: str
    command_type: str = "HASHING_ENABLE"
    params: dict[str, Any] = {}
    miner: str = "miner"
    priority: int = 0
    ttl_sec: int | None = None
    expires_at: str | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    targets: list[str] | None = None
    id: str | None = None


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What the answer must be, and what came of the request. A text that begins with `~` is a pattern for the whole."""

    status: int = 200
    # The commands that were handed out, in order.
    commands: list[str] | None = None
    json: Any = None
    # Some of the body: where to look, with dots, and what must be there.
    has: dict[str, Any] = {}
    # Where there must be a null, which TOML cannot say.
    null: list[str] = []
    lacks: list[str] = []
    text: str | None = None
    error: str | None = None
    field: str | None = None
    headers: dict[str, str] = {}
    absent: list[str] = []
    # Each command carries the signature that the specification's formula gives, over the eleven fields alone.
    signed: bool = False
    # Whether anything in the database but the audit trail is different afterwards.
    changes: bool | None = None
    # The events that the site's audit trail was told of.
    audit: list[str] | None = None


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """One thing that happens: exactly one of the first seven."""

    create: list[Made] | None = None
    advance: float | None = None
    act: Literal["revoke", "rotate_secret", "settle"] | None = None
    poll: str | None = None
    ack: str | None = None
    extend: str | None = None
    request: str | None = None

    by: Caller = "collector"
    json: Any = None
    body: str | None = None
    gzip: bool = False
    # Sign the body as an ACK: with the collector's secret, with the one before it, or with another.
    sign: Literal["right", "old", "wrong"] | None = None
    headers: list[tuple[str, str]] = []
    # Made while the poll waits.
    meanwhile: list[Made] = []
    save: dict[str, str] = {}
    times: int = 1
    # Whether the fast lane must have answered it. Of polls and ACKs it must, unless the case says otherwise.
    hot: bool | None = None
    expected: Expected = msgspec.field(default_factory=Expected)

    def is_hot(self) -> bool:
        return (self.poll is not None or self.ack is not None) if self.hot is None else self.hot

    def is_request(self) -> bool:
        return self.create is None and self.advance is None and self.act is None

    def target(self) -> tuple[str, str]:
        """Method, path and query."""
        if self.poll is not None:
            return "GET", f"{BASE}/commands/poll" + (f"?{self.poll}" if self.poll else "")
        if self.ack is not None:
            return "POST", f"{BASE}/commands/{self.ack}/ack"
        if self.extend is not None:
            return "POST", f"{BASE}/commands/{self.extend}/extend"
        method, _, path = (self.request or "").partition(" ")
        return method, BASE + path


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    why: str
    step: list[Step]
    # The specification's example names its site, zone and miner by number.
    at_site_42: bool = False


class CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    case: list[Case]
    settings: dict[str, Any] = {}
