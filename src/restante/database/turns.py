"""Turns: calls about the same thing are served by one writer at a time, and calls about several gather.

    writer 1 serves sites 7, 9   ◀── what comes for site 7 meanwhile is set aside for writer 1: its next list
                                 ◀── so is what comes for site 8, if writer 1 has only just begun
    writer 2                         serves site 8, if writer 1 has been at it for longer: it may be held up

Two transactions about one thing would only wait for each other in the database, each with a connection; what is set
aside instead gathers, and is then one list. One list about several things is one flush to disk instead of several.
Other processes are not known here: what keeps them apart is the database's locks.

Must always hold: what is set aside is for a writer that is at work, who gets it when it ends; nothing is left behind.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from restante.database.hot import HotCall

# Longer than most transactions take: who is at it for longer waits for another node, or for a large write.
GATHERING_SECONDS = 0.02


class Turns:
    def __init__(self, writers: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._is_one_alone = writers == 1
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._served_by: dict[Hashable, int] = {}
        self._began: dict[int, float] = {}
        self._aside: dict[int, list[HotCall[Any, Any]]] = {}

    def begin(self, writer: int, calls: Iterable[HotCall[Any, Any]]) -> list[HotCall[Any, Any]]:
        """The calls that the writer is to serve now; the others are another's."""
        if self._is_one_alone:
            return list(calls)
        own = []
        with self._guard:
            gatherer = self._who_gathers(writer)
            for call in calls:
                about = call.about
                server = writer if about is None else self._served_by.get(about, gatherer)
                if server != writer:
                    self._aside.setdefault(server, []).append(call)
                    continue
                own.append(call)
                if about is not None:
                    self._served_by[about] = writer
                    self._began.setdefault(writer, self._monotonic())
        return own

    def end(self, writer: int) -> list[HotCall[Any, Any]]:
        """The writer has served what it began; what was set aside for it meanwhile."""
        with self._guard:
            self._began.pop(writer, None)
            self._served_by = {about: server for about, server in self._served_by.items() if server != writer}
            return self._aside.pop(writer, [])

    def _who_gathers(self, writer: int) -> int:
        """Another who has only just begun; else the writer itself."""
        now = self._monotonic()
        for other, began in self._began.items():
            if other != writer and now - began < GATHERING_SECONDS:
                return other
        return writer
