"""What outbox rows, logs and clients come to, in plain Python: what the real ones are compared with."""

from dataclasses import dataclass, field

from restante.core.cursor import START, Head, Position

# A log that is trimmed often.
KEEP, SLACK = 3, 2


@dataclass
class Row:
    """What the model knows of an outbox row."""

    id: int
    device: int
    about: int | None
    """None for a payload that is no signal."""
    status: str = "PENDING"
    attempts: int = 0
    next_attempt_at: int | None = None
    claimed_by: str | None = None
    lock_expires_at: int | None = None

    def waits(self, now_ms: int) -> bool:
        return any(at is not None and at > now_ms for at in (self.next_attempt_at, self.lock_expires_at))


@dataclass
class Log:
    """What the model knows of a device's log: everything ever published, and how much of it is gone."""

    published: list[tuple[Position, int]] = field(default_factory=list)
    trimmed: int = 0

    @property
    def newest(self) -> Position:
        return self.published[-1][0] if self.published else START

    @property
    def retained(self) -> list[tuple[Position, int]]:
        return self.published[self.trimmed :]

    @property
    def head(self) -> Head:
        if not self.published:
            return Head()
        trimmed = self.published[self.trimmed - 1][0] if self.trimmed else START
        return Head(self.newest, trimmed, self.retained[0][0])

    def append(self, abouts: list[int], now_ms: int) -> None:
        for about in abouts:
            position = Position(max(now_ms, self.newest.ms), len(self.published) + 1)
            self.published.append((position, about))
        if len(self.retained) > KEEP + SLACK:
            self.trimmed = len(self.published) - KEEP

    def misses_something(self, cursor: Position) -> bool:
        gone = self.published[: self.trimmed]
        return cursor > self.newest or any(position > cursor for position, _ in gone)


@dataclass
class Client:
    device: int
    cursor: Position | None = None
