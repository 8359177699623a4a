"""What a transaction does while another holds what it wants: it waits, or it should have."""

import threading
import time

from restante.database.connection import Connection
from restante.database.queries import Query

SOON = 60.0


def until_waiting_or_over(conn: Connection, thread: threading.Thread) -> None:
    waiting = Query("waiting", "SELECT 1 FROM pg_locks WHERE NOT granted")
    end = time.monotonic() + SOON
    while thread.is_alive() and not conn.all(waiting):
        assert time.monotonic() < end
