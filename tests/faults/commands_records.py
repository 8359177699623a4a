"""What the command fault test writes down: what operators and collectors saw, and the server's view at the end."""

from typing import NamedTuple


class Made(NamedTuple):
    """A command whose making was answered."""

    command: str
    status: str


class Decided(NamedTuple):
    """An operator's decision that was answered: approved, denied or cancelled."""

    command: str
    event: str


class Handed(NamedTuple):
    """A command in a poll's answer, in the order in which its collector was handed commands."""

    device: int
    command: str
    attempt: int


class Acked(NamedTuple):
    """An ACK as it was sent, for the attempt its command was handed out under; `code` is None if no answer came.

    `is_late`: the lease was surely over when the first of its kind was sent.
    """

    device: int
    command: str
    attempt: int
    status: str
    is_late: bool
    code: int | None
    is_replayed: bool = False
    state: str | None = None
    error: str | None = None

    @property
    def is_taken(self) -> bool:
        return self.code is not None and 200 <= self.code < 300


Record = Made | Decided | Handed | Acked


class Row(NamedTuple):
    n: int
    actor: str
    event: str
    from_state: str | None
    to_state: str | None
    attempt: int | None = None
    error: str | None = None


class Kept(NamedTuple):
    """A command as the server has it at the end, with its rows in their order."""

    command: str
    status: str
    attempt: int
    dedupe_key: str | None
    rows: tuple[Row, ...]
