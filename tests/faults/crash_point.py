"""Start the server with a planted bug and a crash point. The modules `planted_bugs` of each folder have the bugs.

    python -m tests.faults.<folder>.planted_bugs BUG crash|survive serve …

Some bugs show only in a crash. With `crash` the server kills itself at the worst point, so that the bug shows for
certain. With `survive` it has the bug and does not kill itself.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from restante.cli.main import main
from restante.core.errors import RestanteError
from restante.database.engine import EngineConnection
from restante.database.writer.writer import Writer

# Late enough that the load is running.
CRASH_AT = 20


class CrashPoint:
    """Kills the process when its crash point is passed for the twentieth time."""

    def __init__(self, *, is_armed: bool) -> None:
        self._is_armed = is_armed
        self._passes = 0

    @property
    def is_next(self) -> bool:
        """Whether the next pass kills the process."""
        return self._is_armed and self._passes + 1 == CRASH_AT

    def pass_by(self) -> None:
        self._passes += 1
        if self._is_armed and self._passes == CRASH_AT:
            os.kill(os.getpid(), signal.SIGKILL)


def replace(owner: object, name: str, replacement: object) -> None:
    if not hasattr(owner, name):
        raise AttributeError(f"there is no {name} to replace")
    setattr(owner, name, replacement)


def start(*bugs: Callable[[CrashPoint], None]) -> None:
    """Plant the bug that the command line names, and run the rest of the command line."""
    chosen = next(bug for bug in bugs if bug.__name__ == sys.argv[1])
    chosen(CrashPoint(is_armed=sys.argv[2] == "crash"))
    sys.argv[1:3] = []
    main()


def wait_long_enough(_calls: list[tuple[Any, ...]]) -> None:
    """Leave time for the response to reach the client, also on a busy machine."""
    time.sleep(5.0)


def respond_before_commit_of(
    crash: CrashPoint,
    owner: object,
    name: str,
    has_effect: Callable[[Any], bool] = lambda _result: True,
    wait_until_received: Callable[[list[tuple[Any, ...]]], None] = wait_long_enough,
) -> None:
    """Send responses before the commit. If the batch called the named function, the crash point lies in between.

    `has_effect`: whether a call with this result has changed something that a crash would lose. `wait_until_received`
    gets the arguments of these calls, and returns when a client certainly has the response to one of them.
    """
    work = getattr(owner, name)
    calls: list[tuple[Any, ...]] = []

    def marked(*args: Any) -> Any:
        result = work(*args)
        if has_effect(result):
            calls.append(args)
        return result

    def run_together(self: Writer, conn: EngineConnection, works: list[Any]) -> None:
        calls.clear()
        conn.begin()
        for work in works:
            try:
                work.run(conn)
                work.resolve()
            except RestanteError as error:
                work.fail(error)
        if calls:
            if crash.is_next:
                wait_until_received(calls)
            time.sleep(0.05)
            crash.pass_by()
        self._publish(conn.commit())

    replace(owner, name, marked)
    replace(Writer, "_run_together", run_together)
