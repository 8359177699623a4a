"""Wait until a transaction in another thread is blocked by a lock, or has finished without being blocked."""

import threading
import time

from restante.database.connection import Connection
from restante.database.queries import Query

TIMEOUT_SECONDS = 60.0


def wait_until_blocked_or_done(conn: Connection, thread: threading.Thread) -> None:
    waiting = Query("waiting", "SELECT 1 FROM pg_locks WHERE NOT granted")
    end = time.monotonic() + TIMEOUT_SECONDS
    while thread.is_alive() and not conn.all(waiting):
        assert time.monotonic() < end
