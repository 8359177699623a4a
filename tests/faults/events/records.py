"""The records of the events fault test: observations of publishers and clients, and the server's final state."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """An event whose publishing was committed."""

    client: int
    jti: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """An event in a poll response. `position` is its index in the response, `n` the number of the client's poll."""

    client: int
    n: int
    position: int
    jti: str
    token: str


@dataclass(frozen=True, slots=True)
class AckSent:
    """An acknowledgement or error that a poll sent for an event. `n` is the number of the poll and of its response."""

    client: int
    n: int
    jti: str
    is_error: bool
    has_response: bool


Record = Published | Delivered | AckSent


@dataclass(frozen=True, slots=True)
class FinalEvent:
    """An event at the end by the server's records."""

    client: int
    jti: str
    status: str
    token: str
