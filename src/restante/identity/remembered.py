"""Callers whose tokens were looked up once, remembered for a while.

Must always hold: a token enters only after the database has said that it is good, and not if everything was forgotten
since that look began. Forgetting is always of everybody: it costs each caller one look into the database, and spares
searching for whose token it was. Runs in the event loop's thread only.
"""

from itertools import islice
from typing import Generic, TypeVar

C = TypeVar("C")

ENTRIES_MAX = 100_000


class Remembered(Generic[C]):
    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._callers: dict[bytes, tuple[C, float]] = {}
        self.generation = 0

    def find(self, token: bytes, now: float) -> C | None:
        found = self._callers.get(token)
        return found[0] if found is not None and now < found[1] else None

    def keep(self, token: bytes, caller: C, until: float, generation: int) -> None:
        """Remember until then; `generation` is ours at the time the look into the database began."""
        if generation != self.generation or not self._entries_max:
            return
        if len(self._callers) >= self._entries_max:
            for oldest in list(islice(self._callers, max(1, self._entries_max // 64))):
                del self._callers[oldest]
        self._callers[token] = (caller, until)

    def forget_all(self) -> None:
        self.generation += 1
        self._callers = {}

    def __len__(self) -> int:
        return len(self._callers)
