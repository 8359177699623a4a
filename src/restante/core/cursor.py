"""Cursor arithmetic: the position of a device in its log, and which signals a poll from there returns.

A position is `(ms, n)`: n counts the signals of a device 1, 2, 3 … without gaps, and ms never decreases. The order of
the pairs is therefore the order of publishing. A cursor is a position written `<ms>-<n>`; to clients it is opaque.
This module does not know storage: a `LogHead` describes a log.

Invariant: a poll either returns every signal after its cursor, in order, or fails with `CursorExpired`. There is never
a silent gap, and a cursor never expires while no signal is missing.
"""

import re
from typing import NamedTuple

import msgspec

from restante.core.errors import BadInput, CursorExpired

_CURSOR = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})", re.ASCII)


class Position(NamedTuple):
    ms: int
    n: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.n}"


START = Position(0, 0)


class LogHead(msgspec.Struct, frozen=True):
    """The log of a device in three positions: its newest signal, the newest trimmed one, the earliest retained one."""

    newest: Position = START
    trimmed: Position = START
    earliest: Position = START

    @property
    def retained(self) -> int:
        return self.newest.n - self.trimmed.n

    def next_position(self, now_ms: int) -> Position:
        """The position of the next signal: the counter grows by one, the time never decreases."""
        return Position(max(now_ms, self.newest.ms), self.newest.n + 1)


def parse_cursor(text: str, field: str = "cursor") -> Position:
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise BadInput(field, "a cursor as this server gave it, <milliseconds>-<number>")
    return Position(int(match[1]), int(match[2]))


def parse_if_none_match(value: str) -> Position:
    """Read the cursor of an If-None-Match header: bare as we send it, or quoted or weak as clients write it."""
    # Only what HTTP defines as white space: line feeds and control characters are not allowed in a header.
    bare = value.strip(" \t")
    if bare.startswith("W/"):
        bare = bare[2:]
    if len(bare) >= 2 and bare[0] == bare[-1] == '"':
        bare = bare[1:-1]
    return parse_cursor(bare, "If-None-Match")


def check_cursor(cursor: Position, head: LogHead) -> None:
    """Raise CursorExpired if and only if reading on from the cursor would miss a signal."""
    if cursor > head.newest:
        raise CursorExpired("cursor_unknown", str(head.newest), str(head.earliest))
    if cursor < head.trimmed:
        raise CursorExpired("cursor_trimmed", str(head.newest), str(head.earliest))


def trim_to(head: LogHead, keep: int, slack: int) -> int | None:
    """The counter up to which to trim if the log holds more than `keep + slack` signals; else None."""
    return head.newest.n - keep if head.retained > keep + slack else None
