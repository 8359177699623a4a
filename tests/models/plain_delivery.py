"""A model of outbox rows, logs and clients in plain Python, which the real ones are compared with."""

from dataclasses import dataclass, field

from restante.core.cursor import START, LogHead, Position

# Small values, so that the log is trimmed often.
KEEP, SLACK = 3, 2


@dataclass
class Row:
    """The model of an outbox row."""

    id: int
    device: int
    about: int | None
    """The number of the change that the signal announces; None for a payload that is no signal."""
    status: str = "PENDING"
    attempts: int = 0
    next_attempt_at: int | None = None
    claimed_by: str | None = None
    lock_expires_at: int | None = None

    def waits(self, now_ms: int) -> bool:
        return any(at is not None and at > now_ms for at in (self.next_attempt_at, self.lock_expires_at))


@dataclass
class Log:
    """The model of a device's log: everything ever published, and how many entries are trimmed."""

    published: list[tuple[Position, int]] = field(default_factory=list)
    trimmed: int = 0

    @property
    def newest(self) -> Position:
        return self.published[-1][0] if self.published else START

    @property
    def retained(self) -> list[tuple[Position, int]]:
        return self.published[self.trimmed :]

    @property
    def head(self) -> LogHead:
        if not self.published:
            return LogHead()
        trimmed = self.published[self.trimmed - 1][0] if self.trimmed else START
        return LogHead(self.newest, trimmed, self.retained[0][0])

    def append(self, abouts: list[int], now_ms: int) -> None:
        for about in abouts:
            position = Position(max(now_ms, self.newest.ms), len(self.published) + 1)
            self.published.append((position, about))
        if len(self.retained) > KEEP + SLACK:
            self.trimmed = len(self.published) - KEEP

    def is_expired(self, cursor: Position) -> bool:
        trimmed = self.published[: self.trimmed]
        return cursor > self.newest or any(position > cursor for position, _ in trimmed)


@dataclass
class Client:
    device: int
    cursor: Position | None = None
