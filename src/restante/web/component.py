"""The interface between a node and its parts.

Each protocol, and each part that runs something, is one `Component`. A node holds a list of components and uses
them only by this interface: it serves their routes, runs their services, passes commit events to them and closes them.
Adding a protocol means adding a package and one entry in the node's list.

    commit events, cluster messages ─▶ their handlers       ─▶ wake waiters and services, invalidate caches
    connection to other nodes lost  ─▶ forget_all           ─▶ the next poll reads the database
    connection restored             ─▶ forget_all, recheck  ─▶ every parked poll reads the database
    another process committed       ─▶ ForeignCommit, catch_up
    every second                    ─▶ tick
    shutdown                        ─▶ close (answers parked polls) ─▶ finish (writes what is only in memory) ─▶ release

Invariant: after `forget_all`, a component answers nothing from memory until it has read the database again.
Handlers run in the event loop.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection
from restante.delivery.long_poll import LongPoll
from restante.delivery.retention import Sweep
from restante.jobs.actions import JobAction
from restante.web.fast_lane_api import FastHandler, FastPost, PollPost
from restante.web.routes import Route


@dataclass(frozen=True, slots=True)
class Service:
    """A background task. `role` names the role that runs it; "" runs it in every process.

    `stop` makes the service finish its current work. A service without it may be cancelled at any point.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    stop: Callable[[], None] | None = None
    role: str = ""


class HistogramValue(NamedTuple):
    """Cumulative buckets as (upper bound, count), and the sum of all observations."""

    buckets: Sequence[tuple[str, float]]
    sum: float


class MetricSample(NamedTuple):
    """One value of a metric that `server.monitoring.metrics.METRICS` declares. Equal samples are added up."""

    name: str
    value: float | HistogramValue
    labels: tuple[str, ...] = ()


class MessageOrigin(NamedTuple):
    """The node that sent a cluster message, and the id of the commit behind it; 0 where there is none."""

    node: str
    commit_id: int


EventHandler = Callable[[Any], object]
MessageHandler = Callable[[Any, MessageOrigin], object]
MessageCompleter = Callable[[Any, int], ClusterMessage]


def handled_by_catch_up(_event: object) -> None:
    """The node calls `catch_up` of every component after this event; nothing else is to be done."""


class Component:
    """A part of a node. Every method has a default that does nothing."""

    def routes(self) -> list[Route]:
        return []

    def pages(self) -> list[Route]:
        """Routes for people with a browser. They are no part of the API, so the OpenAPI document does not list them."""
        return []

    def fast_handlers(self) -> Mapping[bytes, FastHandler]:
        """Handlers of hot GET requests in the fast lane, by request target."""
        return {}

    def fast_posts(self) -> list[FastPost]:
        return []

    def fast_polls(self) -> list[PollPost]:
        """Handlers of polls that are POST requests."""
        return []

    def services(self) -> list[Service]:
        return []

    def sweeps(self) -> list[Sweep]:
        return []

    def job_actions(self) -> list[JobAction[Any]]:
        """What bulk jobs can do with the rows of this component."""
        return []

    def release_leases(self, conn: Connection) -> None:
        """Release leases of a former process. Called at the start when no other process can hold any."""

    async def start(self) -> None:
        """Read what polls need, before the node serves."""

    def join_cluster(self, node_name: str, send: Callable[[ClusterMessage], None]) -> None:
        """Called once if other nodes share the database. `send` publishes a message that belongs to no commit."""

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        """What to do after a commit of this process, by type of event; and after a message of another node."""
        return {}

    def cluster_message_handlers(self) -> Mapping[type[ClusterMessage], MessageHandler]:
        """Messages of other nodes that need their origin, or mean more or less than the event of this process."""
        return {}

    def message_completers(self) -> Mapping[type[ClusterMessage], MessageCompleter]:
        """How to complete a message with the id of its commit before it is sent to the other nodes."""
        return {}

    def handle_bus_scan(self, next_commit_id: int) -> None:
        """The bus scanned the stored messages: every commit before the scan has a lower id."""

    def forget_all(self) -> None:
        """Drop all cached knowledge about the database."""

    def recheck(self) -> None:
        """Make every parked poll and service read the database again: anything may have changed."""

    async def catch_up(self) -> None:
        """Read again what another process may have changed."""

    def tick(self, now: float) -> None:
        """Called every second with the database's time."""

    def forget_full_buckets(self, now: float) -> None:
        """Called every few seconds with the monotonic time: drop rate-limit state that no longer limits."""

    @property
    def parked_count(self) -> int:
        """How many polls are parked."""
        return 0

    def unavailable(self) -> list[str]:
        """The names of external systems that this component works without at the moment, for the health check."""
        return []

    async def read_metrics(self) -> None:
        """Read from the database what `metrics` needs."""

    def metrics(self) -> Iterable[MetricSample]:
        return ()

    def close(self) -> None:
        """Answer every parked poll, and park none from now on."""

    async def finish(self) -> None:
        """Write what is only in memory. Called after all services have stopped."""

    def release(self) -> None:
        """Release connections and processes. Called last; may block."""


class PollComponent(Component):
    """A component with one long poll. Its `recheck` makes every parked poll read the database again."""

    poll: LongPoll[Any, Any]

    def forget_all(self) -> None:
        self.poll.forget_all()

    def recheck(self) -> None:
        self.poll.notify_all()

    def tick(self, now: float) -> None:
        self.poll.tick(now)

    def forget_full_buckets(self, now: float) -> None:
        self.poll.forget_full_buckets(now)

    @property
    def parked_count(self) -> int:
        return self.poll.parked_count

    def close(self) -> None:
        self.poll.close()
