"""Several worker processes on one address: each is a complete server on the same shared database.

The parent binds the socket and listens before it starts the first worker. All workers accept from that socket. The
first worker also serves the Unix socket of the data folder.
"""

import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from restante.server import lifecycle
from restante.server.cluster.supervisor import Supervisor
from restante.server.cluster.worker_metrics import WorkerAddress, WorkerMetrics
from restante.server.config.settings import Settings
from restante.server.database_wait import DatabaseWait, StoppedWhileWaiting

if TYPE_CHECKING:
    from restante.server.app import Node


def serve_workers(
    settings: Settings,
    sock: socket.socket,
    opened: Callable[[Settings], AbstractContextManager["Node"]],
    when_listening: Callable[[], None] = lambda: None,
) -> int:
    """Run the workers until a stop signal, and return the exit code.

    `when_listening` is called in the first worker that serves, and never again.
    """
    sock.listen(lifecycle.BACKLOG)
    folder = Path(tempfile.mkdtemp(prefix="restante-workers-"))

    def work(number: int) -> None:
        with ExitStack() as stack:
            try:
                node = DatabaseWait(settings, sock).run_when_reachable(lambda: stack.enter_context(opened(settings)))
            except StoppedWhileWaiting:
                return
            node.metrics.worker_metrics = WorkerMetrics(WorkerAddress(folder, number, settings.workers))
            lifecycle.serve(node, sock, report_once, has_local_socket=number == 1)

    def report_once() -> None:
        # Workers share no memory: the one that creates the file reports.
        with suppress(FileExistsError):
            (folder / "listening").touch(exist_ok=False)
            when_listening()

    try:
        return Supervisor(settings.workers, work, settings.shutdown_seconds).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
