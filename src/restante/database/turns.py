"""Turns: calls about the same thing are served by one writer at a time.

    writer 1 serves site 7   ◀── what comes for site 7 meanwhile is set aside for writer 1: its next batch
    writer 2 serves site 8

Two transactions about one thing would only wait for each other in the database, each with a connection; what is set
aside instead gathers, and is then one list. Other processes are not known here: what keeps them apart is the
database's locks.

Must always hold: what is set aside is for a writer that is at work, who gets it when it ends; nothing is left behind.
"""

import threading
from collections.abc import Hashable, Iterable
from typing import Any

from restante.database.hot import HotCall


class Turns:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._served_by: dict[Hashable, int] = {}
        self._aside: dict[int, list[HotCall[Any, Any]]] = {}

    def begin(self, writer: int, calls: Iterable[HotCall[Any, Any]]) -> list[HotCall[Any, Any]]:
        """The calls that the writer is to serve now; the others are another's."""
        own = []
        with self._guard:
            for call in calls:
                about = call.about
                server = writer if about is None else self._served_by.setdefault(about, writer)
                if server == writer:
                    own.append(call)
                else:
                    self._aside.setdefault(server, []).append(call)
        return own

    def end(self, writer: int) -> list[HotCall[Any, Any]]:
        """The writer has served what it began; what was set aside for it meanwhile."""
        with self._guard:
            self._served_by = {about: server for about, server in self._served_by.items() if server != writer}
            return self._aside.pop(writer, [])
