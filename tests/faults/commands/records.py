"""The records of the commands fault test: observations of operators and collectors, and the server's final state.

They are named tuples because a collector process sends them as JSON lists.
"""

from typing import NamedTuple


class Created(NamedTuple):
    """A command whose creation got a response."""

    command: str
    status: str


class Decision(NamedTuple):
    """An operator's decision that got a response: approved, denied or cancelled."""

    command: str
    event: str


class Dispatched(NamedTuple):
    """A command in a poll response, in the order in which its collector received commands."""

    device: int
    command: str
    attempt: int


class AckSent(NamedTuple):
    """An ACK that a collector sent for the attempt under which it got the command. `code` None means no response.

    `is_late`: the lease had certainly expired when this ACK was first sent.
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
    def is_accepted(self) -> bool:
        return self.code is not None and 200 <= self.code < 300


Record = Created | Decision | Dispatched | AckSent


class AuditRow(NamedTuple):
    n: int
    actor: str
    event: str
    from_state: str | None
    to_state: str | None
    attempt: int | None = None
    error: str | None = None


class FinalCommand(NamedTuple):
    """A command at the end by the server's records, with its audit rows in order."""

    command: str
    status: str
    attempt: int
    dedupe_key: str | None
    rows: tuple[AuditRow, ...]
