"""Blocks the reader or writer threads of a database, to test what happens without them."""

import threading
from collections.abc import Callable

from restante.database.connection import Connection
from restante.database.database import Database

TIMEOUT_SECONDS = 10.0


def hold_readers(database: Database) -> Callable[[], None]:
    """Block every reader thread until the returned function is called."""
    all_blocked, released = threading.Barrier(database.readers + 1), threading.Event()

    def block(_conn: Connection) -> None:
        all_blocked.wait(TIMEOUT_SECONDS)
        assert released.wait(TIMEOUT_SECONDS)

    for _ in range(database.readers):
        threading.Thread(target=database.read_now, args=(block,)).start()
    all_blocked.wait(TIMEOUT_SECONDS)
    return released.set


def hold_writers(database: Database) -> Callable[[], None]:
    """Block every writer thread until the returned function is called; that function waits until they have finished."""
    released = threading.Event()

    def block(_conn: Connection, is_blocked: threading.Event) -> None:
        is_blocked.set()
        assert released.wait(TIMEOUT_SECONDS)

    blocked = []
    for _ in range(database.writers):
        # One after another: a thread gets everything queued, and each thread must get one.
        is_blocked = threading.Event()
        blocked.append(database.submit(block, is_blocked))
        assert is_blocked.wait(TIMEOUT_SECONDS)

    def release() -> None:
        released.set()
        for each in blocked:
            each.result(TIMEOUT_SECONDS)

    return release
