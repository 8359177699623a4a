"""Keeping the leases of commands that take long.

While a command is carried out, its lease is extended when it is half over. A lease is lost if the server has given it
to another collector, or if it could not be extended in time: nothing more may be sent to a miner under it.
"""

from __future__ import annotations

import threading
from typing import Callable

from restante_client.agent.logs import Log
from restante_client.collector.models import Command
from restante_client.errors import ResponseError, RestanteError, Unavailable
from restante_client.runtime import steady_seconds

CHECK_SECONDS = 1.0
LEASE_SECONDS = 60

Extend = Callable[[Command, int], None]


class Lease:
    """The lease of one command that is being carried out."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.ends = steady_seconds() + command.lease_seconds_left
        self.extend_at = steady_seconds() + command.lease_seconds_left / 2
        # As long as the lease was: a crash then delays the command no longer than without the extension.
        found = command.fields.get("lease_duration_sec")
        self.extension_seconds = found if isinstance(found, int) and 1 <= found <= 3600 else LEASE_SECONDS
        self.is_lost = False

    def is_held(self) -> bool:
        return not self.is_lost and steady_seconds() < min(self.ends, self.command.expires)


class LeaseKeeper:
    def __init__(self, extend: Extend, log: Log) -> None:
        self._extend = extend
        self._log = log
        self._lock = threading.Lock()
        self._leases: set[Lease] = set()

    def add(self, command: Command) -> Lease:
        lease = Lease(command)
        with self._lock:
            self._leases.add(lease)
        return lease

    def remove(self, lease: Lease) -> None:
        with self._lock:
            self._leases.discard(lease)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(CHECK_SECONDS):
            self.extend_due()

    def extend_due(self) -> None:
        """Extend every lease that is half over."""
        with self._lock:
            due = [lease for lease in self._leases if lease.is_held() and steady_seconds() >= lease.extend_at]
        for lease in due:
            self._extend_one(lease)

    def _extend_one(self, lease: Lease) -> None:
        now = steady_seconds()
        try:
            self._extend(lease.command, lease.extension_seconds)
        except RestanteError as error:
            if isinstance(error, ResponseError) and not isinstance(error, Unavailable):
                lease.is_lost = True
            self._log.warning("lease not extended", command_id=lease.command.command_id, reason=str(error))
            return
        # Counted from before the request: the server's time is at least as late.
        lease.ends, lease.extend_at = now + lease.extension_seconds, now + lease.extension_seconds / 2
