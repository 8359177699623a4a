"""Keeping the database's readers or writers busy, to see what is done without them."""

import threading
from collections.abc import Callable

from restante.database.connection import Connection
from restante.database.database import Database

SOON = 10.0


def hold_readers(database: Database) -> Callable[[], None]:
    """Keep every reader thread busy until the function that is returned is called."""
    begun, go_on = threading.Barrier(database.readers + 1), threading.Event()

    def hold(_conn: Connection) -> None:
        begun.wait(SOON)
        assert go_on.wait(SOON)

    for _ in range(database.readers):
        threading.Thread(target=database.read_now, args=(hold,)).start()
    begun.wait(SOON)
    return go_on.set


def hold_writers(database: Database) -> Callable[[], None]:
    """Keep every writer thread busy until the function that is returned is called, and has seen them finish."""
    go_on = threading.Event()

    def hold(_conn: Connection, begun: threading.Event) -> None:
        begun.set()
        assert go_on.wait(SOON)

    held = []
    for _ in range(database.writers):
        # One after the other: a thread takes all that wait, and each is to have one.
        begun = threading.Event()
        held.append(database.submit(hold, begun))
        assert begun.wait(SOON)

    def let_go() -> None:
        go_on.set()
        for each in held:
            each.result(SOON)

    return let_go
