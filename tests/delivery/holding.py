"""Keeping the database's readers busy, to see what is done without them."""

import threading
from collections.abc import Callable

from restante.database.connection import Connection
from restante.database.database import READERS, Database

SOON = 10.0


def hold_readers(database: Database) -> Callable[[], None]:
    """Keep every reader thread busy until the function that is returned is called."""
    begun, go_on = threading.Barrier(READERS + 1), threading.Event()

    def hold(_conn: Connection) -> None:
        begun.wait(SOON)
        assert go_on.wait(SOON)

    for _ in range(READERS):
        threading.Thread(target=database.read_now, args=(hold,)).start()
    begun.wait(SOON)
    return go_on.set
