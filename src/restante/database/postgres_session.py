"""A connection to PostgreSQL, on which statements travel without waiting for one another's answers.

    send BEGIN · send lock · send query ──▶ fetch the query's rows        one journey
    send update · send insert · send COMMIT ──▶ end                       one journey

Between `open` and `end` nothing that is sent is waited for until somebody wants an answer; then the answers to all
before it have come too. The server works through the statements in their order, and after one that failed through none
until the end: an error shows with the first answer that is waited for after it, at the latest at the end.

Sending is done with the driver's own parts, below its cursors: a cursor goes to the socket for each statement, which
costs more than most of ours take to run. Every statement is prepared when it is first sent.

Knows nothing of transactions. What the driver raises leaves here as it is.
"""

import select
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.abc import Transformer as TransformerOfDriver
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from restante.database.postgres_values import Types, encoded, formats_of

# So many statements are kept before they are sent without being asked for: what the server answers must be read too.
UNSENT_MAX = 500
# More than the program has: a bound all the same.
PREPARED_MAX = 2000

_SET_UP = """
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '60s';
SET client_min_messages = warning;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
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


class Answer:
    """What a statement will be answered, or was."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: PGresult | None = None

    def failed(self) -> None:
        """Told if it was not carried out."""

    @property
    def changed(self) -> int:
        """How many rows the statement changed or gave."""
        return (self.result.command_tuples if self.result else None) or 0

    @property
    def said(self) -> bytes | None:
        return self.result.command_status if self.result else None


class _Preparation(Answer):
    """The answer to the preparing of a statement, which is not prepared if that failed."""

    __slots__ = ("_key", "_prepared")

    def __init__(self, prepared: "dict[_Key, _Prepared]", key: "_Key") -> None:
        super().__init__()
        self._prepared = prepared
        self._key = key

    def failed(self) -> None:
        self._prepared.pop(self._key, None)


# A statement's text, and the types of its values.
_Key = tuple[str, Types]
# What the server knows it by, and in what form the values are sent.
_Prepared = tuple[bytes, list[Format]]


class Session:
    """One connection. It is lost once, and not mended: whoever uses it makes another."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        driver = self._driver = psycopg.connect(**parameters, autocommit=True)
        self.version = driver.info.server_version
        self.encoding = driver.info.parameter_status("server_encoding")
        self._wire = driver.pgconn
        self._hears, self._hears_or_takes = select.poll(), select.poll()
        self._hears.register(self._wire.socket, select.POLLIN)
        self._hears_or_takes.register(self._wire.socket, select.POLLIN | select.POLLOUT)
        self._transformer: TransformerOfDriver = Transformer(driver)
        self._prepared: dict[_Key, _Prepared] = {}
        self._made = 0
        self._waited_for: deque[Answer | None] = deque()
        self._unsent = 0

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
        if not self._hears.poll(0):
            return False
        try:
            driver.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False

    def open(self) -> None:
        """From here on, wait for nothing that nobody wants to know."""
        if self._wire.pipeline_status:
            return
        if len(self._prepared) > PREPARED_MAX:
            self._driver.execute("DEALLOCATE ALL")
            self._prepared.clear()
        self._wire.enter_pipeline_mode()

    def end(self) -> None:
        """Wait for all that was sent; raises what is wrong with the first of it that failed."""
        if self._wire.status == ConnStatus.BAD or not self._wire.pipeline_status:
            return
        try:
            self.arrive()
        finally:
            if self._wire.status != ConnStatus.BAD:
                self._wire.exit_pipeline_mode()

    def undo(self) -> None:
        """Roll back the transaction that is open, if one is. Behind a statement that failed nothing is heard before the
        end: so it is said after it."""
        with suppress(psycopg.Error):
            self.end()
        if self._driver.info.transaction_status != TransactionStatus.IDLE:
            self._driver.rollback()

    def send(self, text: str, values: Sequence[Any] = ()) -> Answer:
        """Send a statement, between `open` and `end`; `rows` and the like wait for its answer."""
        answer = Answer()
        self._send(text, values, answer)
        return answer

    def send_many(self, text: str, rows: Sequence[Sequence[Any]]) -> None:
        """Send a statement once for each row of values; their answers nobody wants."""
        for values in rows:
            self._send(text, values, Answer())

    def arrive(self) -> None:
        """Wait until all that was sent has been answered."""
        if not self._waited_for:
            return
        self._wire.pipeline_sync()
        self._waited_for.append(None)
        self._flush()
        try:
            error = self._collect()
        finally:
            self._waited_for.clear()
        if self._wire.status == ConnStatus.BAD:
            raise psycopg.OperationalError(self._wire.get_error_message() or "the connection was lost")
        if error is not None:
            raise error

    def arrived(self, answer: Answer) -> PGresult:
        """What a statement was answered, waited for if need be."""
        if answer.result is None:
            self.arrive()
        if answer.result is None:
            raise psycopg.InterfaceError("a statement was left out behind one that failed")
        return answer.result

    def tuples(self, answer: Answer) -> list[tuple[Any, ...]]:
        """The rows of an answer; none of a statement that has none to give."""
        result = self.arrived(answer)
        return self._loading(result).load_rows(0, result.ntuples, tuple)

    def dicts(self, answer: Answer) -> list[dict[str, Any]]:
        """The same, by the names of their columns."""
        result = self.arrived(answer)
        names = [(result.fname(place) or b"").decode() for place in range(result.nfields)]
        return self._loading(result).load_rows(0, result.ntuples, lambda row: dict(zip(names, row, strict=True)))

    def run_script(self, text: str) -> None:
        """Run several statements, without values, and wait for them."""
        is_open = bool(self._wire.pipeline_status)
        self.end()
        self._driver.execute(text.encode(), prepare=False)
        if is_open:
            self.open()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._driver.close()

    def _loading(self, result: PGresult) -> TransformerOfDriver:
        self._transformer.set_pgresult(result)
        return self._transformer

    def _send(self, text: str, values: Sequence[Any], answer: Answer) -> None:
        sent, types = encoded(values)
        prepared = self._prepared.get((text, types)) or self._prepare(text, types)
        self._wire.send_query_prepared(prepared[0], sent, prepared[1], Format.BINARY)
        self._waited_for.append(answer)
        self._unsent += 1
        if self._unsent >= UNSENT_MAX:
            self._flush()

    def _prepare(self, text: str, types: Types) -> _Prepared:
        self._made += 1
        key, prepared = (text, types), (b"restante_%d" % self._made, formats_of(types))
        self._prepared[key] = prepared
        self._wire.send_prepare(prepared[0], text.encode(), types)
        self._waited_for.append(_Preparation(self._prepared, key))
        return prepared

    def _flush(self) -> None:
        """Send what is kept, reading what comes meanwhile, so that both sides can go on."""
        self._unsent = 0
        while self._wire.flush():
            if any(ready & ~select.POLLOUT for _, ready in self._hears_or_takes.poll()):
                self._wire.consume_input()

    def _collect(self) -> psycopg.Error | None:
        """Give each answer its result, in the order of sending; what is wrong with the first that has none."""
        wire, waited_for, first = self._wire, self._waited_for, None
        while waited_for:
            if wire.is_busy():
                self._hears.poll()
                wire.consume_input()
                continue
            result = wire.get_result()
            if result is None:
                # That was all of a statement.
                answer = waited_for.popleft()
                if answer is not None and answer.result is None:
                    answer.failed()
            elif result.status == ExecStatus.PIPELINE_SYNC:
                waited_for.popleft()
            elif result.status == ExecStatus.FATAL_ERROR:
                first = first or error_from_result(result, encoding="utf-8")
            elif result.status != ExecStatus.PIPELINE_ABORTED and waited_for[0] is not None:
                waited_for[0].result = result
        return first
