import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from restante.database.connection import Connection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.external.drivers import DRIVERS, MYSQL_OPTIONS, InvalidUrl, options_of
from restante.database.external.external_database import ExternalAddress, ExternalDatabase
from restante.database.queries import Query
from restante.database.sqlite import wall_clock_ms
from tests.services.mariadb import MariaDb

TIMEOUT_SECONDS = 30.0
CLOCK_TOLERANCE_MS = 60_000
ISOLATION = Query(
    "isolation",
    "SELECT current_setting('transaction_isolation') AS level",
    (("mysql", "SELECT @@tx_isolation AS level"),),
)
ECHO = Query("echo", "SELECT :value AS value")


@pytest.fixture(params=["mysql", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[ExternalDatabase]:
    if request.param == "mysql":
        mariadb: MariaDb = request.getfixturevalue("mariadb")
        url = mariadb.create_database(f"drivers_{uuid.uuid4().hex[:16]}")
    else:
        url = request.getfixturevalue("empty_postgres_url")
    with closing(ExternalDatabase(ExternalAddress("shop", request.param, url))) as database:
        yield database


def level(conn: Connection) -> str:
    row = conn.one(ISOLATION)
    assert row is not None
    return str(row["level"]).replace("-", " ").lower()


async def test_transactions_run_at_read_committed(database: ExternalDatabase) -> None:
    assert await database.read(level) == "read committed"


async def test_clock_is_that_of_the_database_and_read_once_per_transaction(database: ExternalDatabase) -> None:
    first, second = await database.read(lambda conn: (conn.now_ms, conn.now_ms))
    assert first == second
    assert abs(first - wall_clock_ms()) < CLOCK_TOLERANCE_MS


@pytest.mark.parametrize("value", [None, "100 % é 'x' \\", 2**53])
async def test_value_is_passed_unchanged(database: ExternalDatabase, value: object) -> None:
    row = await database.read(lambda conn: conn.one(ECHO, value=value))
    assert row is not None
    assert row["value"] == value


async def test_exclusive_writes_do_not_overlap(database: ExternalDatabase) -> None:
    running: set[int] = set()

    def work(_conn: Connection, number: int) -> None:
        assert not running
        running.add(number)
        running.clear()

    with closing(ExternalDatabase(database.address)) as another:
        writes = [place.write_exclusive(work, number) for number in range(10) for place in (database, another)]
        await asyncio.wait_for(asyncio.gather(*writes), TIMEOUT_SECONDS)


async def test_error_of_a_wrong_password_does_not_quote_it(database: ExternalDatabase) -> None:
    wrong = database.address.url.replace("s3cret", "wr0ng")
    address = ExternalAddress("shop", database.address.engine, wrong)
    with closing(ExternalDatabase(address)) as refused, pytest.raises(DatabaseUnavailable) as raised:
        await refused.read(level)
    assert "wr0ng" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("engine", ["postgres", "mysql"])
async def test_missing_server_raises_database_error(engine: str) -> None:
    scheme = {"postgres": "postgresql", "mysql": "mysql"}[engine]
    driver = DRIVERS[engine]
    with pytest.raises(DatabaseError), driver.translate_errors():
        driver.connect(f"{scheme}://ada:s3cret@127.0.0.1:1/shop")


def test_unknown_url_options_are_refused() -> None:
    assert options_of("mysql://h/d?name=x&ssl_ca=%2Fca.pem", MYSQL_OPTIONS) == {"ssl_ca": "/ca.pem"}
    with pytest.raises(InvalidUrl, match="no option sslmode"):
        options_of("mysql://h/d?sslmode=require", MYSQL_OPTIONS)
