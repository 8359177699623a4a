"""The receiver at work: one thread polls and acknowledges, another one delivers, joined by the store.

    main thread   poll ─▶ verified events on disk ─▶ acknowledged with the next poll
    delivery      store, oldest first ─▶ sink ─▶ marked as delivered

A sink that fails does not stop the polls, until `backlog_max` events wait. Then the events wait at the server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Optional

from restante_client import BlockingEventReceiver, Event
from restante_client.agent.logs import Log
from restante_client.agent.receiver.sinks import Sink, SinkFailed, SinkGone
from restante_client.agent.stopping import Stopped, Stopper
from restante_client.errors import RestanteError, StateError
from restante_client.pacing import Backoff

IDLE_SECONDS = 5.0
BACKLOG_PAUSE_SECONDS = 1.0
EARLY_PAUSE_SECONDS = 1.0
FORGET_EVERY_SECONDS = 3600.0


class ReceiverWork:
    def __init__(
        self, receiver: BlockingEventReceiver, sink: Sink, stopper: Stopper, log: Log, *, backlog_max: int
    ) -> None:
        self._receiver = receiver
        self._sink = sink
        self._stopper = stopper
        self._log = log
        self._backlog_max = backlog_max
        self._stored = threading.Event()
        self._ended = threading.Event()
        self._gone: Optional[SinkGone] = None

    def run_once(self) -> int:
        """Receive and deliver everything that waits now. Return how many events were delivered."""
        has_more = True
        delivered = 0
        while has_more and not self._stopper.is_stopped:
            has_more = self._receiver.poll(is_immediate=True)
            delivered += self._receiver.handle_stored(self._sink.deliver)
            self._receiver.acknowledge()
        return delivered

    def run(self) -> None:
        """Work until the stopper stops the program. Raises `SinkGone`."""
        delivery = threading.Thread(target=self._deliver)
        delivery.start()
        try:
            self._poll()
        finally:
            self._ended.set()
            self._stored.set()
            # `handle_stored` ends after the event in hand.
            self._receiver.stop()
            delivery.join()
        with contextlib.suppress(RestanteError):
            self._receiver.acknowledge()
        if self._gone is not None:
            raise self._gone

    def _poll(self) -> None:
        backoff = Backoff()
        is_immediate = True
        forget_at = time.monotonic()
        while not self._stopper.is_stopped and self._gone is None:
            if self._receiver.store.to_handle_count() >= self._backlog_max:
                self._stopper.pause(BACKLOG_PAUSE_SECONDS)
                continue
            started = time.monotonic()
            try:
                has_more = self._receiver.poll(is_immediate=is_immediate)
            except Stopped:
                return
            except StateError:
                raise
            except RestanteError as error:
                # Also refused credentials: a client that was suspended may be resumed.
                self._log.warning("poll failed", reason=str(error))
                self._stopper.pause(backoff.failed(getattr(error, "retry_after_seconds", None)))
                continue
            backoff.succeeded()
            has_stored = bool(self._receiver.store.to_acknowledge(1))
            if has_stored:
                self._stored.set()
            elif not is_immediate and time.monotonic() - started < EARLY_PAUSE_SECONDS:
                # The server ended a long poll at once, for example because it stops.
                self._stopper.pause(EARLY_PAUSE_SECONDS)
            # What was just stored is acknowledged at once, not when the next event arrives.
            is_immediate = has_more or has_stored or self._receiver.has_errors
            if time.monotonic() >= forget_at:
                self._receiver.store.forget_old()
                forget_at = time.monotonic() + FORGET_EVERY_SECONDS

    def _deliver(self) -> None:
        backoff = Backoff(max_seconds=60.0)
        while not self._ended.is_set():
            self._stored.wait(IDLE_SECONDS)
            self._stored.clear()
            try:
                if self._receiver.handle_stored(self._deliver_one):
                    backoff.succeeded()
            except SinkFailed as error:
                self._stored.set()
                self._ended.wait(backoff.failed(error.retry_after_seconds))
            except SinkGone as error:
                self._gone = error
                return
            except StateError as error:
                self._log.error("delivery failed", error=error)
                self._stored.set()
                self._ended.wait(backoff.failed())

    def _deliver_one(self, event: Event) -> None:
        try:
            self._sink.deliver(event)
        except SinkFailed as error:
            self._log.error("event not delivered", error=error, jti=event.jti)
            raise
        self._log.info("event delivered", jti=event.jti)
