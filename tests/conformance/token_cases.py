"""The conformance cases of the token endpoint: one request each, and what the answer must be."""

from typing import Any, Literal

import msgspec


class Expected(msgspec.Struct, forbid_unknown_fields=True):
    status: int
    scope: str | None = None
    error: str | None = None
    description: str | None = None
    # Whether the answer says how to authenticate.
    challenge: bool = False


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """`form` is sent, or `raw` in its stead, under `media_type`; the rest is how the client proves itself."""

    name: str
    why: str
    expected: Expected
    form: dict[str, str] = {}
    raw: str | None = None
    media_type: str = ""
    certificate: str | None = None
    secret: Literal["right", "wrong"] | None = None
    # The claims that are not as usual.
    assertion: dict[str, Any] | None = None
    times: int = 1

    @property
    def step(self) -> "list[Case]":
        """The one thing that happens."""
        return [self]

    def is_request(self) -> bool:
        return True

    def is_hot(self) -> bool:
        """Tokens are asked for once in a long while."""
        return False


class CaseFile(msgspec.Struct, forbid_unknown_fields=True):
    case: list[Case]
    settings: dict[str, Any] = {}
