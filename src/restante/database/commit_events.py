"""Commit events: what a transaction publishes once it has committed, to this process and to the other nodes.

    transaction ── add_commit_event(event) ── COMMIT ─▶ this process: every component handles the event
                                                     └▶ other nodes:  every component handles event.cluster_message()

An event names the recipient of a change, never the change itself: a component that holds state about that recipient
reads the database again. A `ClusterMessage` travels to other nodes as it is. A `LocalEvent` stays in the process, or
travels as another, smaller message. The tags and the order of the fields are the wire format between nodes of
different versions.
"""

from dataclasses import dataclass
from typing import ClassVar

import msgspec


class ClusterMessage(msgspec.Struct, array_like=True, frozen=True):
    """An event that other nodes handle, too.

    `work_role` names the role whose background service the message wakes. A process with that role has woken its own
    service and sends no message: the services of other nodes find the work if it does not get done.
    """

    work_role: ClassVar[str] = ""
    # Whether every component must read again what another process may have changed (`Component.catch_up`).
    needs_catch_up: ClassVar[bool] = False

    def cluster_message(self) -> "ClusterMessage | None":
        return self


class LocalEvent:
    """An event that concerns only the process in which it happened."""

    __slots__ = ()

    def cluster_message(self) -> ClusterMessage | None:
        return None


@dataclass(frozen=True, slots=True)
class ForeignCommit(LocalEvent):
    """Another process changed the database: cached knowledge may be out of date."""


@dataclass(frozen=True, slots=True)
class CommitOutcomeUnknown(LocalEvent):
    """A commit of this process may have succeeded without its events being handled here.

    Other nodes find its stored message by scanning, if it did succeed.
    """


class AnythingChanged(ClusterMessage, frozen=True, tag="anything"):
    """Stands for an event that is no commit event of this module: every cache may be out of date."""
