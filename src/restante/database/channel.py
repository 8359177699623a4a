"""What an engine gives that several nodes can share: a channel between them. A payload sent is heard by all who listen.

Only PostgreSQL has one. What is sent is neither kept nor confirmed: whoever was not listening has not heard it.
"""

from typing import Protocol

# PostgreSQL takes payloads of less than 8000 bytes.
PAYLOAD_BYTES_MAX = 7900


class Channel(Protocol):
    """One end of it, used by one thread. Each call raises DatabaseUnavailable if the database cannot be reached."""

    def listen(self) -> None:
        """From now on everything that is sent is heard."""

    def wait(self, seconds: float) -> list[str]:
        """What has come; nothing if nothing comes for so long."""

    def send(self, payloads: list[str]) -> None: ...

    def close(self) -> None: ...
