"""Batched operations: queued calls of the same operation become one call with a list of requests.

    claim(a) ┐                                          ┌─▶ the outcome of a
    claim(b) ├─▶ queue ─▶ writer: claim_many([a, b, c]) ┼─▶ the outcome of b
    claim(c) ┘                                          └─▶ the outcome of c

A batched operation is a function of a connection and a list of requests. It returns one outcome per request, in the
order of the list; each is a result or `Failed`. It has the same effect as running the requests one after another.

Invariants: every call gets its outcome once, failures included, and only after the commit that contains it. A call
that was cancelled before it ran does not run. If the function raises for a list, the culprit is unknown: the list is
rolled back and each request runs alone.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from restante.database.connection import Connection

log = structlog.get_logger()

Request = TypeVar("Request")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a request that failed and changed nothing."""

    error: BaseException


class BatchOperation(Generic[Request, Result]):
    """Made once per operation: calls are grouped by the identity of this object.

    `lock_key` names what a request will lock, in a name space that all operations share: see `writer_affinity`.
    """

    __slots__ = ("lock_key", "work")

    def __init__(
        self,
        work: Callable[[Connection, list[Request]], Sequence[Result | Failed]],
        lock_key: Callable[[Request], Hashable] | None = None,
    ) -> None:
        self.work = work
        self.lock_key = lock_key


class BatchCall(msgspec.Struct, Generic[Request, Result], eq=False):
    """One queued request. `then` is called with its outcome, in its event loop if it has one."""

    operation: BatchOperation[Request, Result]
    request: Request
    then: Callable[[Result | Failed], None]
    loop: asyncio.AbstractEventLoop | None
    outcome: Any = None
    is_cancelled: bool = False
    # Whether `then` was called. Read and written only where `then` is called: in the event loop, if there is one.
    is_resolved: bool = False

    @property
    def lock_key(self) -> Hashable:
        """The key that the call will lock; None if any writer may run it at any time."""
        lock_key = self.operation.lock_key
        return None if lock_key is None else lock_key(self.request)

    def cancel(self) -> None:
        """Do not run the call, unless it already runs."""
        self.is_cancelled = True


class CallGroup:
    """Calls of one operation that run together."""

    __slots__ = ("calls",)

    def __init__(self, calls: list[BatchCall[Any, Any]]) -> None:
        self.calls = calls

    def run(self, conn: Connection) -> None:
        """Run the operation and store each call's outcome; `resolve` reports it after the commit."""
        calls = self.calls
        outcomes = calls[0].operation.work(conn, [call.request for call in calls])
        if len(outcomes) != len(calls):
            raise RuntimeError(f"{len(outcomes)} outcomes for {len(calls)} requests")
        for call, outcome in zip(calls, outcomes, strict=True):
            call.outcome = outcome

    @property
    def size(self) -> int:
        return len(self.calls)

    def split(self) -> list["CallGroup"]:
        return [CallGroup([call]) for call in self.calls]

    def resolve(self) -> None:
        resolve_calls(self.calls)

    def fail(self, error: BaseException) -> None:
        for call in self.calls:
            call.outcome = Failed(error)
        resolve_calls(self.calls)


def group_calls(calls: Iterable[BatchCall[Any, Any]]) -> list[CallGroup]:
    """Group the calls by operation, in their order. Cancelled calls are resolved as such and left out."""
    by_operation: dict[BatchOperation[Any, Any], list[BatchCall[Any, Any]]] = {}
    for call in calls:
        if call.is_cancelled:
            call.outcome = Failed(CancelledError())
            resolve_calls([call])
        else:
            by_operation.setdefault(call.operation, []).append(call)
    return [CallGroup(group) for group in by_operation.values()]


def resolve_calls(calls: list[BatchCall[Any, Any]]) -> None:
    """Report the outcomes of the calls. An event loop is woken once for all of its calls."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[BatchCall[Any, Any]]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, own in by_loop.items():
        if loop is None:
            _run_callbacks(own)
        else:
            # The callers of a closed loop have ended with it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_run_callbacks, own)


def _run_callbacks(calls: list[BatchCall[Any, Any]]) -> None:
    for call in calls:
        _resolve(call, call.outcome)


def _resolve(call: BatchCall[Any, Any], outcome: Any) -> None:
    if call.is_resolved:
        return
    call.is_resolved = True
    try:
        call.then(outcome)
    except Exception:
        # The other calls must still get their outcomes.
        log.exception("outcome callback failed")


def abandon_calls(calls: list[BatchCall[Any, Any]], error: Exception) -> None:
    """Fail calls that a writer may be running: what the writer reports later is ignored. Not run if not running yet."""
    for call in calls:
        call.is_cancelled = True
        if call.loop is not None:
            with suppress(RuntimeError):
                call.loop.call_soon_threadsafe(_resolve, call, Failed(error))
