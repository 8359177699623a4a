"""Rates and backlogs over the last minutes, for the charts of the overview.

    every 5 s: counters of the components (memory only) ─▶ History ─▶ row of this node (every beat) ─▶ other nodes
               while a page is open: backlogs, too (one read of the database for all open pages)

A rate is the sum of all nodes: each shares its last values with the row that says that it runs. A backlog is in the
database, so every node reads the same. Nothing is counted per poll: the counters exist anyway, for the metrics.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

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
REQUESTS = "requests"
_REQUEST_METRICS = ("restante_fast_lane_requests",)


class Rates:
    def __init__(self, facts: ServerFacts, live: Live) -> None:
        self._facts = facts
        self._live = live
        self.history = History()

    async def run(self) -> None:
        """Add the values of now, again and again. Runs as a service."""
        while True:
            await self.sample()
            await asyncio.sleep(SECONDS_PER_PLACE)

    async def sample(self) -> None:
        is_watched = self._live.stream_count > 0
        sums: dict[tuple[str, tuple[str, ...]], float] = {}
        if is_watched:
            with suppress(DatabaseError):
                sums[COMMANDS_WAITING, ()] = await self._facts.read_backlogs()
        for name, value, labels in self._facts.samples():
            if isinstance(value, float | int):
                sums[name, ()] = sums.get((name, ()), 0.0) + value
                if labels:
                    sums[name, labels] = sums.get((name, labels), 0.0) + value
        values = {chart: sum(sums.get((name, chart.labels), 0.0) for name in chart.metrics) for chart in CHARTS}
        counters = {chart.key: value for chart, value in values.items() if not chart.is_gauge}
        counters[REQUESTS] = sum(sums.get((name, ()), 0.0) for name in _REQUEST_METRICS)
        gauges = {
            chart.key: value
            for chart, value in values.items()
            if chart.is_gauge and (is_watched or not chart.is_backlog)
        }
        self.history.add(counters, gauges)
        for chart in CHARTS:
            if chart.is_backlog and not is_watched:
                # A value of the time when the last page was open would pass for that of now.
                self.history.forget(chart.key)

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
