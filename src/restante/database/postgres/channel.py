"""The channel between nodes on PostgreSQL: LISTEN and NOTIFY, on connections of their own.

A NOTIFY inside a transaction makes its commit wait for every other commit that notifies. Therefore a NOTIFY never
runs inside a transaction that changes data. Payloads are worthless after a crash, so sending does not wait for the
disk (`synchronous_commit = off`).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from restante.database.errors import DatabaseUnavailable

T = TypeVar("T")

CHANNEL = "restante"
_SEND = "SELECT pg_notify($1, payload) FROM unnest(CAST($2 AS TEXT[])) AS payload"


class PostgresChannel:
    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self._driver: psycopg.Connection[Any] | None = None

    def listen(self) -> None:
        self._run(lambda driver: driver.execute(f"LISTEN {CHANNEL}"))

    def wait(self, seconds: float) -> list[str]:
        return self._run(lambda driver: [each.payload for each in driver.notifies(timeout=seconds, stop_after=1)])

    def send(self, payloads: list[str]) -> None:
        self._run(lambda driver: psycopg.RawCursor(driver).execute(_SEND, [CHANNEL, payloads]))

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(psycopg.Error):
                driver.close()

    def _run(self, work: "Callable[[psycopg.Connection[Any]], T]") -> T:
        try:
            if self._driver is None:
                self._driver = psycopg.connect(**self._parameters, autocommit=True)
                self._driver.execute("SET synchronous_commit = off")
            return work(self._driver)
        except psycopg.Error as error:
            # A connection that failed has missed payloads: the next call opens a new one.
            self.close()
            raise DatabaseUnavailable(f"the channel between nodes was lost: {error}".strip()) from error
