"""Rates and backlogs over the last minutes, for the charts of the overview.

    every 5 s: counters of the components (memory only) ─▶ History ─▶ row of this node (every beat) ─▶ other nodes
               while a page is open: backlogs, too (one read of the database for all open pages)
    a page is opened, no other one is: backlogs of now

A rate is the sum of all nodes: each shares its last values with the row that says that it runs. A backlog is in the
database, so every node reads the same. Nothing is counted per poll: the counters exist anyway, for the metrics.
"""

import asyncio
from dataclasses import dataclass

import structlog

from restante.console.live import Live
from restante.console.rendering.charts import SECONDS_PER_PLACE, History, summed
from restante.console.server_facts import NodeRow, ServerFacts
from restante.database.errors import DatabaseError
from restante.identity.grants import Area


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of metrics that are added up. `labels`: only samples with these. `area`: who may see all of it does."""

    key: str
    title: str
    unit: str
    metrics: tuple[str, ...]
    area: Area | None
    is_backlog: bool = False
    labels: tuple[str, ...] = ()
    is_gauge: bool = False


COMMANDS_WAITING = "commands_waiting"
CHARTS = (
    Chart("polls", "Device polls", "per second", ("restante_polls",), Area.updates),
    Chart("signals", "Signals delivered", "per second", ("restante_signals_delivered",), Area.updates),
    Chart(
        "parked",
        "Parked polls",
        "waiting",
        ("restante_parked_polls", "restante_parked_event_polls"),
        None,
        is_gauge=True,
    ),
    Chart("outbox", "Outbox rows waiting", "rows", ("restante_outbox_rows",), Area.updates, True, ("pending",), True),
    Chart("commits", "Commits", "per second", ("restante_commits",), None),
    Chart("commands", "Commands dispatched", "per second", ("commands_dispatched",), Area.commands),
    Chart("acks", "Commands acknowledged", "per second", ("commands_acked",), Area.commands),
    Chart("events", "Events delivered", "per second", ("restante_events_delivered",), Area.events),
    Chart("queue", "Commands waiting", "commands", (COMMANDS_WAITING,), Area.commands, True, (), True),
    Chart("inbox", "Events waiting", "events", ("restante_event_inbox",), Area.events, True, ("waiting",), True),
)
BACKLOG_CHARTS = tuple(chart for chart in CHARTS if chart.is_backlog)
REQUESTS = "requests"
_REQUEST_METRICS = ("restante_fast_lane_requests",)
log = structlog.get_logger()


class Rates:
    def __init__(self, facts: ServerFacts, live: Live) -> None:
        self._facts = facts
        self._live = live
        self._commands_waiting = 0
        self._first_backlogs: asyncio.Task[None] | None = None
        self.history = History()

    async def run(self) -> None:
        """Add the values of now, again and again. Runs as a service."""
        while True:
            await self.sample()
            await asyncio.sleep(SECONDS_PER_PLACE)

    async def sample(self) -> None:
        has_backlogs = self._live.stream_count > 0 and await self._read_backlogs()
        values = self._values()
        counters = {chart.key: values[chart.key] for chart in CHARTS if not chart.is_gauge}
        counters[REQUESTS] = values[REQUESTS]
        gauges = {
            chart.key: values[chart.key]
            for chart in CHARTS
            if chart.is_gauge and (has_backlogs or not chart.is_backlog)
        }
        self.history.add(counters, gauges)
        for chart in BACKLOG_CHARTS:
            if not has_backlogs:
                # An old value would pass for that of now.
                self.history.forget(chart.key)

    async def wait_for_backlogs(self, seconds: float) -> None:
        """For a page that is opened while no other one is: read the backlogs of now. A page that has waited for so long
        is shown without them."""
        if all(self.history.values(chart.key) for chart in BACKLOG_CHARTS):
            return
        if self._first_backlogs is None or self._first_backlogs.done():
            self._first_backlogs = asyncio.create_task(self._add_backlogs())
        await asyncio.wait([self._first_backlogs], timeout=seconds)

    async def _add_backlogs(self) -> None:
        if await self._read_backlogs():
            values = self._values()
            self.history.add({}, {chart.key: values[chart.key] for chart in BACKLOG_CHARTS})

    async def _read_backlogs(self) -> bool:
        """False if the database did not answer."""
        try:
            self._commands_waiting = await self._facts.read_backlogs()
        except DatabaseError as error:
            log.warning("the charts of backlogs have a gap because the database does not answer", error=str(error))
            return False
        return True

    def _values(self) -> dict[str, float]:
        """The values of all charts, and the number of requests."""
        sums: dict[tuple[str, tuple[str, ...]], float] = {(COMMANDS_WAITING, ()): self._commands_waiting}
        for name, value, labels in self._facts.samples():
            if isinstance(value, float | int):
                sums[name, ()] = sums.get((name, ()), 0.0) + value
                if labels:
                    sums[name, labels] = sums.get((name, labels), 0.0) + value
        values = {chart.key: sum(sums.get((name, chart.labels), 0.0) for name in chart.metrics) for chart in CHARTS}
        values[REQUESTS] = sum(sums.get((name, ()), 0.0) for name in _REQUEST_METRICS)
        return values

    def shared(self) -> dict[str, list[float]]:
        """What other nodes add to their charts: the last values of all rates of this one."""
        keys = [REQUESTS, *(chart.key for chart in CHARTS if not chart.is_backlog)]
        return {key: [round(value, 1) for value in self.history.values(key)] for key in keys}

    def values(self, chart: Chart, nodes: list[NodeRow], now_ms: int) -> list[float]:
        """The values of the chart: of all nodes that run, or of the database."""
        own = self.history.values(chart.key)
        if chart.is_backlog:
            return own
        others = [node.series.get(chart.key, []) for node in nodes if not node.is_self and not node.is_away(now_ms)]
        return summed([own, *others])

    @property
    def requests_per_second(self) -> float:
        return (self.history.values(REQUESTS) or [0.0])[-1]
