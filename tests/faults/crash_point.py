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


def respond_before_commit_of(crash: CrashPoint, owner: object, name: str) -> None:
    """Send responses before the commit. If the batch called the named function, the crash point lies in between."""
    work = getattr(owner, name)
    is_affected = False

    def marked(*args: Any) -> Any:
        nonlocal is_affected
        is_affected = True
        return work(*args)

    def run_together(self: Writer, conn: EngineConnection, works: list[Any]) -> None:
        nonlocal is_affected
        is_affected = False
        conn.begin()
        for work in works:
            try:
                work.run(conn)
                work.resolve()
            except RestanteError as error:
                work.fail(error)
        if is_affected:
            # Leave time for the response to reach the client, also on a busy machine.
            time.sleep(5.0 if crash.is_next else 0.05)
            crash.pass_by()
        self._publish(conn.commit())

    replace(owner, name, marked)
    replace(Writer, "_run_together", run_together)
