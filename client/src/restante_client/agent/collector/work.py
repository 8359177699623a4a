"""The collector at work: four jobs in threads of one process, joined by the state folder.

    main thread   poll ─▶ commands, as many as there are free workers
    workers       a command ─▶ miners ─▶ result and ACK in the spool
    monitor       miners ─▶ safety override, telemetry in the spool
    sender        spool ─▶ server: ACKs first
    leases        lengthen those of commands that take long

The server may be away for days: the safety override and the telemetry go on, and the spool keeps what fits its bounds.
A refused token does not end the program either, because the safety override must go on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Callable, Optional

from restante_client import BlockingCollectorClient, Command
from restante_client.agent.collector.execution import CommandExecutor
from restante_client.agent.collector.leases import LeaseKeeper
from restante_client.agent.collector.monitor import Monitor
from restante_client.agent.logs import Log
from restante_client.agent.stopping import Stopped, Stopper
from restante_client.errors import RestanteError, StateError
from restante_client.pacing import Backoff

SEND_SECONDS = 5.0
SLOT_SECONDS = 1.0
# A poll that ends early without commands is followed by a pause, so that it cannot become a tight loop.
EARLY_PAUSE_SECONDS = 1.0
FORGET_EVERY_SECONDS = 3600.0


class CollectorWork:
    def __init__(
        self,
        client: BlockingCollectorClient,
        executor: CommandExecutor,
        monitor: Monitor,
        stopper: Stopper,
        log: Log,
        *,
        workers: int = 8,
        wait_seconds: int = 25,
    ) -> None:
        self._client = client
        self._executor = executor
        self._monitor = monitor
        self._stopper = stopper
        self._log = log
        self._wait_seconds = wait_seconds
        self._leases = LeaseKeeper(client.extend, log)
        self._workers = workers
        self._free = workers
        self._freed = threading.Condition()
        self._to_send = threading.Event()
        self._forget_at = time.monotonic()

    # Once

    def run_once(self) -> None:
        """Read all miners, carry out the commands that wait, and send all reports. Errors of the server are raised."""
        records = self._monitor.read_all()
        if records:
            self._client.add_telemetry(records)
        for command in self._client.poll(limit=self._workers):
            self._carry_out(command)
        self._client.flush()

    # For ever

    def run(self, stop: threading.Event, sample_seconds: float, telemetry_seconds: float) -> None:
        """Work until the stopper stops the program. `stop` is set when the threads must end."""
        monitoring = partial(self._monitor.run, stop, sample_seconds, telemetry_seconds)
        jobs = (monitoring, partial(self._send, stop), partial(self._leases.run, stop))
        with self._threads(stop, *jobs), ThreadPoolExecutor(self._workers, "worker") as workers:
            try:
                self._take_commands(workers)
            finally:
                # Pauses of the executor end at once; then the workers finish the commands in hand.
                stop.set()
        with contextlib.suppress(RestanteError):
            self._client.flush()

    def _take_commands(self, workers: ThreadPoolExecutor) -> None:
        backoff = Backoff()
        while not self._stopper.is_stopped:
            free = self._wait_for_free_worker()
            if not free:
                continue
            started = time.monotonic()
            try:
                commands = self._client.poll(self._wait_seconds, limit=free)
            except Stopped:
                return
            except StateError:
                raise
            except RestanteError as error:
                self._log.warning("poll failed", reason=str(error))
                self._stopper.pause(backoff.failed(getattr(error, "retry_after_seconds", None)))
                continue
            backoff.succeeded()
            for command in commands:
                self._occupy()
                workers.submit(self._carry_out_and_free, command)
            if commands:
                continue
            self._to_send.set()
            self._forget_old()
            if time.monotonic() - started < max(self._wait_seconds - EARLY_PAUSE_SECONDS, EARLY_PAUSE_SECONDS):
                self._stopper.pause(EARLY_PAUSE_SECONDS)

    def _forget_old(self) -> None:
        if time.monotonic() >= self._forget_at:
            self._client.store.forget_old()
            self._forget_at = time.monotonic() + FORGET_EVERY_SECONDS

    def _wait_for_free_worker(self) -> int:
        with self._freed:
            if not self._free:
                self._freed.wait(SLOT_SECONDS)
            return self._free

    def _occupy(self) -> None:
        with self._freed:
            self._free -= 1

    def _carry_out_and_free(self, command: Command) -> None:
        try:
            self._carry_out(command)
        except Exception as error:
            self._log.error("command not recorded", error=error, command_id=command.command_id)
        finally:
            with self._freed:
                self._free += 1
                self._freed.notify()

    def _carry_out(self, command: Command) -> None:
        lease = self._leases.add(command)
        try:
            self._client.carry_out(command, lambda found: self._executor.execute(found, lease.is_held))
        finally:
            self._leases.remove(lease)
            self._to_send.set()

    def _send(self, stop: threading.Event) -> None:
        backoff = Backoff(max_seconds=60.0)
        while not stop.is_set():
            self._to_send.wait(SEND_SECONDS)
            self._to_send.clear()
            pause_seconds = self._flush(backoff)
            if pause_seconds is not None:
                stop.wait(pause_seconds)

    def _flush(self, backoff: Backoff) -> Optional[float]:
        """Send what waits. Return how long to pause if that failed."""
        try:
            self._client.flush()
        except RestanteError as error:
            self._log.warning("reports wait in the spool", reason=str(error), **self._client.store.waiting())
            return backoff.failed(getattr(error, "retry_after_seconds", None))
        backoff.succeeded()
        return None

    @contextlib.contextmanager
    def _threads(self, stop: threading.Event, *jobs: Callable[[], None]) -> Iterator[None]:
        threads = [threading.Thread(target=self._guarded, args=(job, stop)) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            self._to_send.set()
            for thread in threads:
                thread.join()

    def _guarded(self, job: Callable[[], None], stop: threading.Event) -> None:
        """A job that failed is started again: the safety override must not end silently."""
        while not stop.is_set():
            try:
                job()
            except Exception as error:
                self._log.error("job failed", error=error)
                stop.wait(EARLY_PAUSE_SECONDS)
