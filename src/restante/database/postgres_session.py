"""A connection to PostgreSQL, on which statements travel without waiting for one another's answers.

    send BEGIN · send lock · send query ──▶ fetch the query's rows        one journey
    send update · send insert · send COMMIT ──▶ end                       one journey

Between `open` and `end` nothing that is sent is waited for until somebody wants an answer; then the answers to all
before it have come too. The server works through the statements in their order, and after one that failed through none
until the end: an error shows with the first answer that is waited for after it, at the latest at the end.

Knows nothing of transactions. What the driver raises leaves here as it is.
"""

import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.adapt import Buffer
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, tuple_row
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

Cursor = psycopg.RawCursor[Any]

_SET_UP = """
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '60s';
SET client_min_messages = warning;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
# Statements are seeks by an index, written to be run alike whatever their values are. They are planned once in a
# connection, not by what a table was last seen to hold, and never compiled, which takes longer than any of them runs.
_PLANNING = """
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET random_page_cost = 1.1
"""

# Behind these the driver prepares everything anew, and must not have sent what relies on what it had prepared.
_RESHAPING = ("DROP ", "ALTER ")


class _WholeDumper(Int8Dumper):
    """Every whole number as 64 bits, so that a statement is prepared once and not once for each magnitude."""

    def dump(self, obj: int) -> Buffer | None:
        return super().dump(int(obj))


class _WholeBinaryDumper(Int8BinaryDumper):
    def dump(self, obj: int) -> Buffer | None:
        return super().dump(int(obj))


class Session:
    """One connection. It is lost once, and not mended: whoever uses it makes another."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._driver = psycopg.connect(**parameters, autocommit=True, prepare_threshold=0)
        self._pipeline: psycopg.Pipeline | None = None
        self._opened = ExitStack()
        driver = self._driver
        driver.prepared_max = 1000
        for kind in (int, bool):
            driver.adapters.register_dumper(kind, _WholeDumper)
            driver.adapters.register_dumper(kind, _WholeBinaryDumper)
        self.version = driver.info.server_version
        self.encoding = driver.info.parameter_status("server_encoding")

    def set_up(self) -> None:
        self.run_script(_SET_UP)
        self.run_script(_PLANNING)

    @property
    def is_lost(self) -> bool:
        return self._driver.closed

    def is_gone(self) -> bool:
        """Whether it was lost while nobody used it. Only who is hung up on hears something when nothing was asked."""
        driver = self._driver
        if driver.closed:
            return True
        if not select.select([driver], [], [], 0)[0]:
            return False
        try:
            driver.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False

    def open(self) -> None:
        """From here on, wait for nothing that nobody wants to know."""
        self._pipeline = self._opened.enter_context(self._driver.pipeline())

    def end(self) -> None:
        """Wait for all that was sent; raises what is wrong with the first of it that failed."""
        self._pipeline = None
        self._opened.close()

    def undo(self) -> None:
        """Roll back the transaction that is open, if one is. Behind a statement that failed nothing is heard before the
        end: so it is said after it."""
        with suppress(psycopg.Error):
            self.end()
        if self._driver.info.transaction_status != TransactionStatus.IDLE:
            self._driver.rollback()

    def send(self, text: str, values: Sequence[Any] = (), *, named: bool = False) -> Cursor:
        """Send a statement; `fetch` waits for its answer. `named`: its rows by the names of their columns."""
        cursor: Cursor = psycopg.RawCursor(self._driver, row_factory=dict_row if named else tuple_row)
        if self._pipeline is not None and text.startswith(_RESHAPING):
            with self._alone():
                return cursor.execute(text, values, binary=True)
        return cursor.execute(text, values, binary=True)

    def send_many(self, text: str, rows: Sequence[Sequence[Any]]) -> None:
        """Send a statement once for each row of values; their answers nobody wants."""
        psycopg.RawCursor(self._driver).executemany(text, rows)

    def fetch(self, cursor: Cursor) -> list[Any]:
        """The rows of an answer; none of a statement that has none to give."""
        if cursor.pgresult is None and self._pipeline is not None:
            self._pipeline.sync()
        if cursor.pgresult is None:
            raise psycopg.InterfaceError("a statement was left out behind one that failed")
        return cursor.fetchall() if cursor.description is not None else []

    def run_script(self, text: str) -> None:
        """Run several statements, without values, and wait for them."""
        with self._alone():
            self._driver.execute(text.encode(), prepare=False)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nothing else is under way meanwhile."""
        is_open = self._pipeline is not None
        self.end()
        yield
        if is_open:
            self.open()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._driver.close()
