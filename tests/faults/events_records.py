"""What the event fault test writes down: what publishers and clients saw, and how the events stand at the end."""

from typing import NamedTuple


class Published(NamedTuple):
    """An event whose publishing was committed."""

    client: int
    jti: str


class Got(NamedTuple):
    """An event in a poll's answer. `position` is its place in that answer, `n` the poll's number at its client."""

    client: int
    n: int
    position: int
    jti: str
    token: str


class Said(NamedTuple):
    """What a poll said of an event; `n` is the number of the poll and of its answer, if there was one."""

    client: int
    n: int
    jti: str
    is_error: bool
    is_answered: bool


Record = Published | Got | Said


class Kept(NamedTuple):
    """An event as the server has it at the end."""

    client: int
    jti: str
    status: str
    token: str
