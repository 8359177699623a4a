"""Two nodes on one PostgreSQL and the events of both: what is published, signed, pushed and changed at the same time.

First what must wait for what, with two transactions that are held open; then live nodes, with every service running.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from restante.database.connection import Connection
from restante.database.engine import EngineConnection
from restante.database.postgres import PostgresEngine
from restante.events import event_keys, publishing
from tests.events import bank
from tests.events.publishers import MASTER, wish
from tests.faults.waiting import SOON, until_waiting_or_over

DAY_SECONDS = 86_400


class Two:
    """Two transactions: the first is left open until the second waits for it, or is over without having waited."""

    def __init__(self, url: str) -> None:
        engine = PostgresEngine(url)
        self.first, self.second = engine.connect(writable=True), engine.connect(writable=True)

    def meet(self, work: Callable[..., Any], first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, Any, bool]:
        """What either came to, and whether the second waited."""
        found: list[Any] = []

        def run_second() -> None:
            found.append(_committed(self.second, work, second))

        self.first.begin()
        before = work(self.first, *first)
        # What nobody has asked about may still be here: it is to be there before the second comes.
        self.first.arrive()
        running = threading.Thread(target=run_second)
        running.start()
        until_waiting_or_over(self.first, running)
        has_waited = running.is_alive()
        self.first.commit()
        running.join(SOON)
        return before, found[0], has_waited

    def close(self) -> None:
        self.first.close()
        self.second.close()


def _committed(conn: EngineConnection, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    conn.begin()
    found = work(conn, *args)
    conn.commit()
    return found


@pytest.fixture
def two(postgres_url: str) -> Iterator[Two]:
    two = Two(postgres_url)
    yield two
    two.close()


def test_what_is_published_for_a_client_is_numbered_in_the_order_of_commits(two: Two) -> None:
    """What a client was handed last says that all before it were: none may turn up before it afterwards."""
    client_id = _committed(two.second, bank.add_client, ()).client_id
    _, _, has_waited = two.meet(publishing.publish, (wish(client_id),), (wish(client_id),))
    assert has_waited


def test_what_is_published_for_all_waits_for_what_is_published_for_one(two: Two) -> None:
    client_ids = [_committed(two.second, bank.add_client, ()).client_id for _ in range(100)]
    _, told, has_waited = two.meet(publishing.publish, (wish(client_ids[70]),), (wish(),))
    assert has_waited
    assert len(told) == 100


def test_of_two_that_make_the_first_key_both_sign_with_one(two: Two) -> None:
    keys = [event_keys.make(MASTER, "ES256") for _ in range(2)]
    first, second, _ = two.meet(event_keys.store_first, (keys[0],), (keys[1],))
    assert first.kid == second.kid == keys[0].kid


def test_of_two_that_find_a_key_too_old_one_makes_another(two: Two) -> None:
    _committed(two.first, _add_old_key, ())
    keys = [event_keys.make(MASTER, "ES256") for _ in range(2)]
    ages = (90, DAY_SECONDS, DAY_SECONDS)
    first, second, _ = two.meet(event_keys.rotate_if_due, (keys[0], *ages), (keys[1], *ages))
    assert (first, second) == (True, False)


def _add_old_key(conn: Connection) -> None:
    key = event_keys.make(MASTER, "ES256")
    long_ago = conn.now_ms - 100 * DAY_SECONDS * 1000
    conn.run(event_keys.SQL.insert_key, **key._asdict(), now_ms=long_ago, signs_from=long_ago)
