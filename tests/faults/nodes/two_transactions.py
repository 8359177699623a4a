"""Two transactions on one PostgreSQL database, the second of which runs while the first is open."""

import threading
from collections.abc import Callable
from typing import Any

from restante.database.engine import EngineConnection
from tests.defaults import new_postgres_engine
from tests.faults.nodes.lock_waits import TIMEOUT_SECONDS, wait_until_blocked_or_done


class TwoTransactions:
    """Two transactions: the first stays open until the second is blocked by it or has finished without blocking."""

    def __init__(self, url: str) -> None:
        engine = new_postgres_engine(url)
        self.first, self.second = engine.connect(writable=True), engine.connect(writable=True)

    def run_both(
        self, work: Callable[..., Any], first: tuple[Any, ...], second: tuple[Any, ...]
    ) -> tuple[Any, Any, bool]:
        """The result of each, and whether the second was blocked."""
        results: list[Any] = []

        def run_second() -> None:
            results.append(committed(self.second, work, second))

        self.first.begin()
        result = work(self.first, *first)
        # Statements without a result may still be buffered: send them before the second transaction starts.
        self.first.flush()
        running = threading.Thread(target=run_second)
        running.start()
        wait_until_blocked_or_done(self.first, running)
        has_waited = running.is_alive()
        self.first.commit()
        running.join(TIMEOUT_SECONDS)
        return result, results[0], has_waited

    def close(self) -> None:
        self.first.close()
        self.second.close()


def committed(conn: EngineConnection, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    conn.begin()
    result = work(conn, *args)
    conn.commit()
    return result
