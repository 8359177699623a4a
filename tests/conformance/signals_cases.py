"""The conformance cases of subscriptions and shared signals: short stories told in steps, read from files.

`{name}` in a step stands for what a step before it has saved of its answer. Every case has two clients of its own.
"""

from typing import Any, Literal

import msgspec


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    """What the answer must be: `has` is some of its body, where to look with dots."""

    status: int = 200
    has: dict[str, Any] = {}
    lacks: list[str] = []
    json: Any = None
    is_empty: bool = False
    headers: dict[str, str] = {}


class Step(msgspec.Struct, forbid_unknown_fields=True):
    request: str
    by: Literal["client", "other", "reader", "unscoped", "nobody"] = "client"
    json: Any = None
    headers: dict[str, str] = {}
    save: dict[str, str] = {}
    times: int = 1
    expected: Expected = msgspec.field(default_factory=Expected)

    def is_request(self) -> bool:
        return True

    def is_hot(self) -> bool:
        """None of it is asked often enough to be."""
        return False


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    why: str
    step: list[Step]


class CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    case: list[Case]
    settings: dict[str, Any] = {}
