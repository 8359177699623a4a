"""A pipelined connection to PostgreSQL: statements are sent without waiting for the results of earlier ones.

    send BEGIN · send lock · send query ──▶ read the query's rows                 one round trip
    send update · send insert · send COMMIT ──▶ end_pipeline                      one round trip

Between `begin_pipeline` and `end_pipeline` nothing waits until a result is read; by then the results of all earlier
statements have arrived too. The server runs the statements in order, and begins with the first while this process still
encodes the next ones. After one that fails it skips all others until the next synchronisation point: the error is
raised by the next read of a result, at the latest by `end_pipeline`.

Statements are sent through the driver's low-level API instead of its cursors: a cursor uses the socket once per
statement, which takes longer than most of our statements run. Every statement is prepared when it is first sent.

This module does not know transactions. It does not translate the driver's errors.
"""

import select
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.abc import Transformer as AbstractTransformer
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from restante.database.postgres.values import Types, encode_values, formats_of

# The first of so many statements is sent at once: the server wakes up and works while the next ones are encoded.
SENT_TOGETHER = 4
# After so many statements the results that have arrived are read, too: the server stops while nobody reads them.
UNREAD_MAX = 500
# A bound; the program has fewer statements.
PREPARED_MAX = 2000

# The server ends a connection whose machine is gone: its locks and its slot are free then.
_SET_UP = """
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '10min';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = '25s';
SET client_min_messages = warning;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""
# For the writers of a node, whose locks other nodes wait for. A node that is frozen in a transaction is idle in it, and
# the server ends the transaction. Its other transactions that wait for the same lock have given up before that
# (lock_timeout is shorter), so they do not get the lock in turn; a writer that is not frozen tries again. Statements of
# honest work are short; one that is not must not keep its locks for ever.
_SERVING = """
SET lock_timeout = '2s';
SET idle_in_transaction_session_timeout = '3s';
SET statement_timeout = '60s'
"""
# All statements are index lookups, written to run the same way for all values. They are planned once per connection,
# independently of table statistics, and never JIT-compiled: compiling takes longer than any of them runs.
_PLANNING = """
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET random_page_cost = 1.1
"""


class PendingResult:
    """The result of a statement that was sent; `result` is None until it has arrived."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: PGresult | None = None

    def on_failure(self) -> None:
        """Called if the statement failed or was skipped."""

    @property
    def row_count(self) -> int:
        """How many rows the statement changed or returned."""
        return (self.result.command_tuples if self.result else None) or 0

    @property
    def command_tag(self) -> bytes | None:
        return self.result.command_status if self.result else None


class _PendingPrepare(PendingResult):
    """The result of preparing a statement. If that fails, the statement counts as not prepared."""

    __slots__ = ("_key", "_prepared")

    def __init__(self, prepared: "dict[_Key, _Prepared]", key: "_Key") -> None:
        super().__init__()
        self._prepared = prepared
        self._key = key

    def on_failure(self) -> None:
        self._prepared.pop(self._key, None)


# The text of a statement, and the types of its values.
_Key = tuple[str, Types]
# The name of the prepared statement, and the format in which its values are sent.
_Prepared = tuple[bytes, list[Format]]


class Session:
    """One connection. A lost session does not reconnect: its user makes a new one."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        driver = self._driver = psycopg.connect(**parameters, autocommit=True)
        self.version = driver.info.server_version
        self.encoding = driver.info.parameter_status("server_encoding")
        self._wire = driver.pgconn
        self._readable, self._readable_or_writable = select.poll(), select.poll()
        self._readable.register(self._wire.socket, select.POLLIN)
        self._readable_or_writable.register(self._wire.socket, select.POLLIN | select.POLLOUT)
        self._transformer: AbstractTransformer = Transformer(driver)
        self._prepared: dict[_Key, _Prepared] = {}
        self._prepare_count = 0
        self._pending: deque[PendingResult | None] = deque()
        # Statements since results were last read.
        self._unread = 0

    def set_up(self) -> None:
        self.run_script(_SET_UP)
        self.run_script(_PLANNING)

    def limit_transactions(self) -> None:
        """End transactions in which the client does nothing for seconds: others may wait for their locks."""
        self.run_script(_SERVING)

    @property
    def is_lost(self) -> bool:
        return self._driver.closed

    def was_lost_while_idle(self) -> bool:
        """Whether the connection was lost while it was idle.

        Unrequested input mostly means that the server has closed it; a query makes sure.
        """
        driver = self._driver
        if driver.closed:
            return True
        if not self._readable.poll(0):
            return False
        try:
            driver.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False

    def begin_pipeline(self) -> None:
        """From here on, wait only for results that are read."""
        if self._wire.pipeline_status:
            return
        if len(self._prepared) > PREPARED_MAX:
            self._driver.execute("DEALLOCATE ALL")
            self._prepared.clear()
        self._wire.enter_pipeline_mode()

    def end_pipeline(self) -> None:
        """Wait for all statements. Raises the error of the first that failed."""
        if self._wire.status == ConnStatus.BAD or not self._wire.pipeline_status:
            return
        try:
            self.sync()
        finally:
            if self._wire.status != ConnStatus.BAD:
                self._wire.exit_pipeline_mode()

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one.

        The pipeline ends first: after a failed statement the server skips everything until then.
        """
        with suppress(psycopg.Error):
            self.end_pipeline()
        if self._driver.info.transaction_status != TransactionStatus.IDLE:
            self._driver.rollback()

    def send(self, text: str, values: Sequence[Any] = ()) -> PendingResult:
        """Send a statement, between `begin_pipeline` and `end_pipeline`; `tuples` or `dicts` wait for its result."""
        pending = PendingResult()
        self._send(text, values, pending)
        return pending

    def send_many(self, text: str, rows: Sequence[Sequence[Any]]) -> None:
        """Send a statement once for each row of values, without results."""
        for values in rows:
            self._send(text, values, PendingResult())

    def sync(self) -> None:
        """Wait until all statements that were sent have a result."""
        if not self._pending:
            return
        self._wire.pipeline_sync()
        self._pending.append(None)
        self._flush()
        try:
            error = self._collect()
        finally:
            self._pending.clear()
        if self._wire.status == ConnStatus.BAD:
            raise psycopg.OperationalError(self._wire.get_error_message() or "the connection was lost")
        if error is not None:
            raise error

    def wait_for(self, pending: PendingResult) -> PGresult:
        """The result of a statement, after waiting for it if necessary."""
        if pending.result is None:
            self.sync()
        if pending.result is None:
            raise psycopg.InterfaceError("the statement was skipped because an earlier one failed")
        return pending.result

    def tuples(self, pending: PendingResult) -> list[tuple[Any, ...]]:
        """The rows of a result; empty for a statement that returns none."""
        result = self.wait_for(pending)
        return self._transformer_of(result).load_rows(0, result.ntuples, tuple)

    def dicts(self, pending: PendingResult) -> list[dict[str, Any]]:
        """The rows of a result, by column name."""
        result = self.wait_for(pending)
        names = [(result.fname(place) or b"").decode() for place in range(result.nfields)]
        return self._transformer_of(result).load_rows(0, result.ntuples, lambda row: dict(zip(names, row, strict=True)))

    def run_script(self, text: str) -> None:
        """Run several statements without values, and wait for them."""
        was_pipelined = bool(self._wire.pipeline_status)
        self.end_pipeline()
        self._driver.execute(text.encode(), prepare=False)
        if was_pipelined:
            self.begin_pipeline()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._driver.close()

    def _transformer_of(self, result: PGresult) -> AbstractTransformer:
        self._transformer.set_pgresult(result)
        return self._transformer

    def _send(self, text: str, values: Sequence[Any], pending: PendingResult) -> None:
        encoded, types = encode_values(values)
        prepared = self._prepared.get((text, types)) or self._prepare(text, types)
        self._wire.send_query_prepared(prepared[0], encoded, prepared[1], Format.BINARY)
        self._pending.append(pending)
        self._unread += 1
        if self._unread >= UNREAD_MAX:
            self._flush()
        elif self._unread % SENT_TOGETHER == 1:
            # Does not block: what the socket does not take now is sent with the next statements.
            self._wire.flush()

    def _prepare(self, text: str, types: Types) -> _Prepared:
        self._prepare_count += 1
        key, prepared = (text, types), (b"restante_%d" % self._prepare_count, formats_of(types))
        self._prepared[key] = prepared
        self._wire.send_prepare(prepared[0], text.encode(), types)
        self._pending.append(_PendingPrepare(self._prepared, key))
        return prepared

    def _flush(self) -> None:
        """Send the buffer. Read results meanwhile: otherwise both sides could block on full socket buffers."""
        self._unread = 0
        while self._wire.flush():
            if any(ready & ~select.POLLOUT for _, ready in self._readable_or_writable.poll()):
                self._wire.consume_input()

    def _collect(self) -> psycopg.Error | None:
        """Store the result of each pending statement, in the order of sending. Returns the first error."""
        wire, pending, first_error = self._wire, self._pending, None
        while pending:
            if wire.is_busy():
                self._readable.poll()
                wire.consume_input()
                continue
            result = wire.get_result()
            if result is None:
                # The results of one statement are complete.
                done = pending.popleft()
                if done is not None and done.result is None:
                    done.on_failure()
            elif result.status == ExecStatus.PIPELINE_SYNC:
                pending.popleft()
            elif result.status == ExecStatus.FATAL_ERROR:
                first_error = first_error or error_from_result(result, encoding="utf-8")
            elif result.status != ExecStatus.PIPELINE_ABORTED and pending[0] is not None:
                pending[0].result = result
        return first_error
