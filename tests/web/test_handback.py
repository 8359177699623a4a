import asyncio
import threading
from concurrent.futures import Future

import pytest
from structlog.testing import capture_logs

from restante.database.connection import Connection
from restante.database.database import Database
from restante.web.handback import Handback


async def results(handback: Handback, count: int) -> list[object]:
    """What so many writes give, each noted in the loop's own thread."""
    got: list[object] = []
    here = threading.get_ident()

    def then(future: "Future[int]") -> None:
        assert threading.get_ident() == here
        got.append(future.exception() or future.result())

    for n in range(count):

        def work(_conn: Connection, n: int = n) -> int:
            if n == 3:
                raise KeyError(n)
            return n

        handback.write(work, then)
    async with asyncio.timeout(10):
        while len(got) < count:
            await asyncio.sleep(0.001)
    return got


async def test_every_write_comes_back(database: Database) -> None:
    got = await results(Handback(database), 300)
    # Within a commit, what failed comes behind what did not.
    assert [result for result in got if not isinstance(result, KeyError)] == [n for n in range(300) if n != 3]
    assert len(got) == 300


async def test_one_that_cannot_be_told_costs_the_others_nothing(database: Database) -> None:
    handback = Handback(database)

    def fails(_future: object) -> None:
        raise ValueError

    with capture_logs() as lines:
        handback.write(lambda _conn: 1, fails)
        assert await results(handback, 3) == [0, 1, 2]
    assert [line["event"] for line in lines] == ["a result could not be handed back"]


@pytest.mark.filterwarnings("error")
async def test_a_closed_database_says_so(database: Database) -> None:
    database.close()
    got = await results(Handback(database), 1)
    assert isinstance(got[0], Exception)
