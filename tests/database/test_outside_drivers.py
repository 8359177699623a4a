import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from restante.database.connection import Connection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.outside import OutsideAddress, OutsideDatabase
from restante.database.outside_drivers import DRIVERS, MYSQL_OPTIONS, Refused, options_of
from restante.database.queries import Query
from restante.database.sqlite import wall_clock_ms
from tests.services.mariadb import MariaDb

SOON = 30.0
CLOCK_SLACK_MS = 60_000
ISOLATION = Query(
    "isolation",
    "SELECT current_setting('transaction_isolation') AS level",
    (("mysql", "SELECT @@tx_isolation AS level"),),
)
ECHO = Query("echo", "SELECT :given AS given")


@pytest.fixture(params=["mysql", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[OutsideDatabase]:
    if request.param == "mysql":
        mariadb: MariaDb = request.getfixturevalue("mariadb")
        url = mariadb.create_database(f"drivers_{uuid.uuid4().hex[:16]}")
    else:
        url = request.getfixturevalue("empty_postgres_url")
    with closing(OutsideDatabase(OutsideAddress("shop", request.param, url))) as database:
        yield database


def level(conn: Connection) -> str:
    row = conn.one(ISOLATION)
    assert row is not None
    return str(row["level"]).replace("-", " ").lower()


async def test_everybody_reads_what_is_committed(database: OutsideDatabase) -> None:
    assert await database.read(level) == "read committed"


async def test_the_clock_is_the_databases_and_stands_still_in_a_transaction(database: OutsideDatabase) -> None:
    first, second = await database.read(lambda conn: (conn.now_ms, conn.now_ms))
    assert first == second
    assert abs(first - wall_clock_ms()) < CLOCK_SLACK_MS


@pytest.mark.parametrize("given", [None, "100 % é 'x' \\", 2**53])
async def test_what_is_given_arrives_as_it_is(database: OutsideDatabase, given: object) -> None:
    row = await database.read(lambda conn: conn.one(ECHO, given=given))
    assert row is not None
    assert row["given"] == given


async def test_two_who_want_to_be_alone_take_turns(database: OutsideDatabase) -> None:
    at_it: set[int] = set()

    def work(_conn: Connection, number: int) -> None:
        assert not at_it
        at_it.add(number)
        at_it.clear()

    with closing(OutsideDatabase(database.address)) as another:
        turns = [place.write_alone(work, number) for number in range(10) for place in (database, another)]
        await asyncio.wait_for(asyncio.gather(*turns), SOON)


async def test_a_wrong_password_is_said_without_it(database: OutsideDatabase) -> None:
    wrong = database.address.url.replace("s3cret", "wr0ng")
    address = OutsideAddress("shop", database.address.engine, wrong)
    with closing(OutsideDatabase(address)) as refused, pytest.raises(DatabaseUnavailable) as raised:
        await refused.read(level)
    assert "wr0ng" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("engine", ["postgres", "mysql"])
async def test_nobody_there_is_said(engine: str) -> None:
    scheme = {"postgres": "postgresql", "mysql": "mysql"}[engine]
    driver = DRIVERS[engine]
    with pytest.raises(DatabaseError), driver.our_errors():
        driver.connect(f"{scheme}://ada:s3cret@127.0.0.1:1/shop")


def test_options_nobody_knows_are_refused() -> None:
    assert options_of("mysql://h/d?name=x&ssl_ca=%2Fca.pem", MYSQL_OPTIONS) == {"ssl_ca": "/ca.pem"}
    with pytest.raises(Refused, match="no option sslmode"):
        options_of("mysql://h/d?sslmode=require", MYSQL_OPTIONS)
