from collections.abc import Iterator

import pytest

from restante.database.channel import PAYLOAD_BYTES_MAX, Channel
from restante.database.errors import DatabaseUnavailable
from restante.database.postgres import PostgresEngine
from tests.services.postgres import PostgresServer

PATIENCE_SECONDS = 20.0


@pytest.fixture
def ends(postgres_url: str) -> Iterator[tuple[Channel, Channel]]:
    engine = PostgresEngine(postgres_url)
    sender, listener = engine.channel(), engine.channel()
    assert sender is not None
    assert listener is not None
    yield sender, listener
    sender.close()
    listener.close()


def heard(listener: Channel, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        came = listener.wait(PATIENCE_SECONDS)
        assert came, "nothing comes"
        found += came
    return found


def test_what_is_sent_is_heard_in_order_by_who_listens(ends: tuple[Channel, Channel]) -> None:
    sender, listener = ends
    sender.send(["before anybody listens"])
    listener.listen()
    largest = "ü" * (PAYLOAD_BYTES_MAX // 2)
    sender.send(["one", "two's", largest])
    sender.send(["three"])
    assert heard(listener, 4) == ["one", "two's", largest, "three"]
    assert listener.wait(0.0) == []


def test_a_lost_connection_is_an_error_and_a_new_one_is_made(
    ends: tuple[Channel, Channel], postgres: PostgresServer
) -> None:
    sender, listener = ends
    listener.listen()
    sender.send(["one"])
    assert heard(listener, 1) == ["one"]
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'made_%' AND pid <> pg_backend_pid()"
    )
    with pytest.raises(DatabaseUnavailable, match="the channel between nodes was lost"):
        listener.wait(PATIENCE_SECONDS)
    with pytest.raises(DatabaseUnavailable):
        sender.send(["two"])
    listener.listen()
    sender.send(["three"])
    assert heard(listener, 1) == ["three"]
