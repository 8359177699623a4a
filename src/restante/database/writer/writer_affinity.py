"""Writer affinity: batched calls with the same lock key run on one writer at a time.

    writer 1 serves sites 7, 9   ◀── calls for site 7 that arrive meanwhile are deferred to writer 1's next batch
                                 ◀── so are calls for site 8, if writer 1 began less than GATHERING_SECONDS ago
    writer 2                         serves site 8, if writer 1 began earlier than that: it may be waiting for a lock

Two transactions that lock the same key would only wait for each other in the database, each holding a connection.
Deferred calls gather instead and become one batch. One batch for several keys is one flush to disk instead of several.
This module does not know other processes: the database's locks keep those apart.

Invariant: calls are deferred only to a writer that is at work. It gets them when it finishes; none is left behind.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from restante.database.writer.batching import BatchCall

# Longer than most transactions. A writer that takes longer waits for another node, or runs a large write.
GATHERING_SECONDS = 0.02


class WriterAffinity:
    def __init__(self, writers: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._has_one_writer = writers == 1
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._writer_of: dict[Hashable, int] = {}
        self._began: dict[int, float] = {}
        self._deferred: dict[int, list[BatchCall[Any, Any]]] = {}

    def begin(self, writer: int, calls: Iterable[BatchCall[Any, Any]]) -> list[BatchCall[Any, Any]]:
        """Return the calls that this writer must serve now; defer the others to the writer that serves their key."""
        if self._has_one_writer:
            return list(calls)
        own = []
        with self._guard:
            gatherer = self._gatherer(writer)
            for call in calls:
                key = call.lock_key
                server = writer if key is None else self._writer_of.get(key, gatherer)
                if server != writer:
                    self._deferred.setdefault(server, []).append(call)
                    continue
                own.append(call)
                if key is not None:
                    self._writer_of[key] = writer
                    self._began.setdefault(writer, self._monotonic())
        return own

    def end(self, writer: int) -> list[BatchCall[Any, Any]]:
        """The writer has finished its calls. Return those that were deferred to it meanwhile."""
        with self._guard:
            self._began.pop(writer, None)
            self._writer_of = {key: server for key, server in self._writer_of.items() if server != writer}
            return self._deferred.pop(writer, [])

    def drop_deferred(self, writer: int) -> list[BatchCall[Any, Any]]:
        """Remove and return the calls that wait for this writer."""
        with self._guard:
            return self._deferred.pop(writer, [])

    def _gatherer(self, writer: int) -> int:
        """Another writer that has only just begun; else this writer."""
        now = self._monotonic()
        for other, began in self._began.items():
            if other != writer and now - began < GATHERING_SECONDS:
                return other
        return writer
