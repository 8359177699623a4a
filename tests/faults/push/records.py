"""The records of the push fault test: published events, requests at receivers, kills, and the final state."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """An event whose publishing got a response, in the order of publishing for its receiver."""

    receiver: str
    jti: str


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A request at a receiver and its response. `status` None: the receiver closed the connection."""

    receiver: str
    connection: int
    jti: str
    token: str
    arrived: float
    ended: float
    status: int | None


@dataclass(frozen=True, slots=True)
class Kill:
    """The time span in which a node was killed."""

    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class FinalEvent:
    """An event at the end by the server's records."""

    jti: str
    status: str


@dataclass(frozen=True, slots=True)
class Records:
    published: list[Published]
    requests: list[PushRequest]
    kills: list[Kill]
    final: list[FinalEvent]
