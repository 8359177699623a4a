"""Hot operations: calls of the same function that wait together become one call with a list.

    claim(a) ┐                                          ┌─▶ the outcome of a
    claim(b) ├─▶ queue ─▶ writer: claim_many([a, b, c]) ┼─▶ the outcome of b
    claim(c) ┘                                          └─▶ the outcome of c

A hot operation is a function over a connection and a list of requests. It returns as many outcomes, in the order of the
list, each a result or `Failed`, and does for the list what it would do for each request alone, one after another.

Must always hold: an outcome is handed back only after the commit that contains it, once, also if it is a failure; who
has gone before its turn is not served. Where the function raises for a list, nobody knows by whose fault: the list is
undone and each request runs alone.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import structlog

from restante.database.connection import Connection

log = structlog.get_logger()

Asked = TypeVar("Asked")
Result = TypeVar("Result")


class Failed(NamedTuple):
    """The outcome of a request that failed, having changed nothing."""

    error: BaseException


class HotOperation(Generic[Asked, Result]):
    """Made once; its calls are told apart from those of others by the object itself.

    `about` says of a request what it will lock, of all operations alike: see `turns`."""

    __slots__ = ("about", "work")

    def __init__(
        self,
        work: Callable[[Connection, list[Asked]], Sequence[Result | Failed]],
        about: Callable[[Asked], Hashable] | None = None,
    ) -> None:
        self.work = work
        self.about = about


class HotCall(msgspec.Struct, Generic[Asked, Result], eq=False):
    """One request on its way. `then` is called with its outcome, in the loop it came from, if from any."""

    operation: HotOperation[Asked, Result]
    asked: Asked
    then: Callable[[Result | Failed], None]
    loop: asyncio.AbstractEventLoop | None
    outcome: Any = None
    is_cancelled: bool = False

    @property
    def about(self) -> Hashable:
        """What the call is about; None if it is in nobody's way."""
        about = self.operation.about
        return None if about is None else about(self.asked)

    def cancel(self) -> None:
        """Do not serve it, if it is not being served already."""
        self.is_cancelled = True


class HotCalls:
    """Calls of one operation that run together."""

    __slots__ = ("calls",)

    def __init__(self, calls: list[HotCall[Any, Any]]) -> None:
        self.calls = calls

    def run(self, conn: Connection) -> None:
        """Give each call its outcome; they are told of it later."""
        calls = self.calls
        outcomes = calls[0].operation.work(conn, [call.asked for call in calls])
        if len(outcomes) != len(calls):
            raise RuntimeError(f"{len(outcomes)} outcomes for {len(calls)} requests")
        for call, outcome in zip(calls, outcomes, strict=True):
            call.outcome = outcome

    @property
    def size(self) -> int:
        return len(self.calls)

    def alone(self) -> list["HotCalls"]:
        return [HotCalls([call]) for call in self.calls]

    def answer(self) -> None:
        hand_back(self.calls)

    def fail(self, error: BaseException) -> None:
        for call in self.calls:
            call.outcome = Failed(error)
        hand_back(self.calls)


def together(calls: Iterable[HotCall[Any, Any]]) -> list[HotCalls]:
    """The calls by their operation, each operation's in their order. Who has gone is told so and left out."""
    by_operation: dict[HotOperation[Any, Any], list[HotCall[Any, Any]]] = {}
    for call in calls:
        if call.is_cancelled:
            call.outcome = Failed(CancelledError())
            hand_back([call])
        else:
            by_operation.setdefault(call.operation, []).append(call)
    return [HotCalls(group) for group in by_operation.values()]


def hand_back(calls: list[HotCall[Any, Any]]) -> None:
    """Tell the calls their outcomes; a loop is woken once for all of its calls."""
    by_loop: dict[asyncio.AbstractEventLoop | None, list[HotCall[Any, Any]]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, own in by_loop.items():
        if loop is None:
            _tell(own)
        else:
            # After the loop has closed nobody is left to be answered.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_tell, own)


def _tell(calls: list[HotCall[Any, Any]]) -> None:
    for call in calls:
        try:
            call.then(call.outcome)
        except Exception:
            # One that cannot be told must not cost the others their answer.
            log.exception("an outcome could not be handed back")
