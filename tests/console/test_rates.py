"""Charts over all nodes: rates are added up, backlogs are not, and a node that is away does not count."""

import asyncio
from collections.abc import Iterable

from restante.console.live import Live
from restante.console.rates import CHARTS, REQUESTS, Chart, Rates
from restante.console.rendering.charts import span, summed
from restante.console.server_facts import AWAY_AFTER_MS, NodeRow, ServerFacts
from restante.database.errors import DatabaseUnavailable
from restante.web.component import MetricSample

NOW = 1_000_000
WAIT_SECONDS = 10.0


class Server:
    """A server whose metrics the test sets."""

    def __init__(self) -> None:
        self.polls, self.waiting = 0, 0
        self.has_database, self.is_answering = True, asyncio.Event()
        self.is_answering.set()
        self.live = Live()
        self.rates = Rates(
            ServerFacts(
                settings=list, check=list, samples=self.samples, read_backlogs=self.read, away=list, nodes=self.nodes
            ),
            self.live,
        )

    def samples(self) -> Iterable[MetricSample]:
        yield MetricSample("restante_polls", self.polls, ("idle",))
        yield MetricSample("restante_fast_lane_requests", self.polls)

    async def read(self) -> int:
        await self.is_answering.wait()
        if not self.has_database:
            raise DatabaseUnavailable("stopped by the test")
        return self.waiting

    async def nodes(self) -> list[NodeRow]:
        return []


def node(series: dict[str, list[float]], seen_at: int = NOW, *, is_self: bool = False) -> NodeRow:
    return NodeRow(
        name="n",
        host="h",
        listen="l",
        roles="all",
        version="1",
        started_at=0,
        seen_at=seen_at,
        is_self=is_self,
        connections=0,
        parked_polls=0,
        requests_per_second=0,
        series=series,
    )


def chart(key: str) -> Chart:
    return next(each for each in CHARTS if each.key == key)


def test_series_are_added_up_from_the_right() -> None:
    assert summed([[1.0, 2.0, 3.0], [10.0]]) == [1.0, 2.0, 13.0]
    assert summed([]) == []


async def test_rate_is_the_sum_of_all_nodes_that_run() -> None:
    server = Server()
    await server.rates.sample()
    server.polls = 50
    await server.rates.sample()
    assert server.rates.shared()["polls"] == server.rates.shared()[REQUESTS] == [0.0, 10.0]
    nodes = [
        node(server.rates.shared(), is_self=True),
        node({"polls": [7.0]}),
        node({"polls": [100.0]}, NOW - AWAY_AFTER_MS - 1),
        node({}),
    ]
    assert server.rates.values(chart("polls"), nodes, NOW) == [0.0, 17.0]


async def test_backlog_is_read_from_the_database_while_a_page_is_open_and_is_not_shared() -> None:
    server = Server()
    server.waiting = 12
    await server.rates.sample()
    assert server.rates.values(chart("queue"), [], NOW) == []
    stream = server.live.open(1, ["clock"], "")
    await anext(stream)
    await server.rates.sample()
    assert server.rates.values(chart("queue"), [node({"queue": [5.0]})], NOW) == [12.0]
    assert "queue" not in server.rates.shared()
    server.live.close()
    assert [each async for each in stream] == []
    await server.rates.sample()
    assert server.rates.values(chart("queue"), [], NOW) == [], "an old value is not shown as that of now"


async def test_page_without_a_stream_shows_the_backlogs_of_now() -> None:
    server = Server()
    server.waiting = 12
    await server.rates.wait_for_backlogs(WAIT_SECONDS)
    assert server.rates.values(chart("queue"), [], NOW) == [12.0]
    server.waiting = 13
    await server.rates.wait_for_backlogs(WAIT_SECONDS)
    assert server.rates.values(chart("queue"), [], NOW) == [12.0], "pages opened one after another share one reading"
    await server.rates.sample()
    await server.rates.wait_for_backlogs(WAIT_SECONDS)
    assert server.rates.values(chart("queue"), [], NOW) == [13.0]


async def test_page_does_not_wait_long_for_backlogs() -> None:
    server = Server()
    server.is_answering.clear()
    await server.rates.wait_for_backlogs(0.001)
    assert server.rates.values(chart("queue"), [], NOW) == []
    server.is_answering.set()
    await server.rates.wait_for_backlogs(WAIT_SECONDS)
    assert server.rates.values(chart("queue"), [], NOW) == [0.0]


async def test_backlogs_are_not_shown_while_the_database_does_not_answer() -> None:
    server = Server()
    server.has_database = False
    await server.rates.wait_for_backlogs(WAIT_SECONDS)
    assert server.rates.values(chart("queue"), [], NOW) == []
    stream = server.live.open(1, ["clock"], "")
    await anext(stream)
    await server.rates.sample()
    assert server.rates.values(chart("queue"), [], NOW) == []
    server.has_database = True
    await server.rates.sample()
    assert server.rates.values(chart("queue"), [], NOW) == [0.0]
    server.live.close()
    assert [each async for each in stream] == []


def test_span_of_a_calendar_has_a_text_for_people_who_do_not_see_it() -> None:
    drawn = str(span(0.25, 0.5, 1.0, 'until "later"'))
    assert 'aria-label="until &#34;later&#34;"' in drawn
    assert 'x="60.0" width="60.0"' in drawn
