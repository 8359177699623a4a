"""Several workers on one address: each a whole server on the same shared database, started by the supervisor.

The socket is bound, and listens, before the first of them is born; they find it open and share what comes in.
"""

import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from restante.server import lifecycle
from restante.server.colleagues import Colleagues, Place
from restante.server.database_wait import DatabaseWait, ToldToStop
from restante.server.settings import Settings
from restante.server.supervisor import Supervisor

if TYPE_CHECKING:
    from restante.server.app import Node


def serve_workers(
    settings: Settings, sock: socket.socket, opened: Callable[[Settings], AbstractContextManager["Node"]]
) -> int:
    """Until told to stop; the exit code."""
    sock.listen(lifecycle.BACKLOG)
    folder = Path(tempfile.mkdtemp(prefix="restante-workers-"))

    def work(number: int) -> None:
        with ExitStack() as stack:
            try:
                node = DatabaseWait(settings, sock).until_done(lambda: stack.enter_context(opened(settings)))
            except ToldToStop:
                return
            node.metrics.colleagues = Colleagues(Place(folder, number, settings.workers))
            lifecycle.serve(node, sock)

    try:
        return Supervisor(settings.workers, work, settings.shutdown_seconds).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
