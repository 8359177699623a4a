"""What the push fault test writes down: what was published, what receivers saw, when nodes died, what is kept."""

from typing import NamedTuple


class Published(NamedTuple):
    """An event whose publishing was answered, in the order of the publishing for its receiver."""

    receiver: str
    jti: str


class Pushed(NamedTuple):
    """A request at a receiver, and what it was answered; no status: it hung up."""

    receiver: str
    connection: int
    jti: str
    token: str
    arrived: float
    ended: float
    status: int | None


class Death(NamedTuple):
    """A node was killed between these moments."""

    begun: float
    over: float


class Kept(NamedTuple):
    """An event as the server has it at the end."""

    jti: str
    status: str


class Records(NamedTuple):
    published: list[Published]
    pushed: list[Pushed]
    deaths: list[Death]
    kept: list[Kept]
