from collections.abc import Iterator

import pytest

from restante.database.engine import PAYLOAD_BYTES_MAX, Channel
from restante.database.errors import DatabaseUnavailable
from tests.defaults import new_postgres_engine
from tests.services.postgres import PostgresServer

TIMEOUT_SECONDS = 20.0


@pytest.fixture
def channels(postgres_url: str) -> Iterator[tuple[Channel, Channel]]:
    engine = new_postgres_engine(postgres_url)
    sender, listener = engine.channel(), engine.channel()
    assert sender is not None
    assert listener is not None
    yield sender, listener
    sender.close()
    listener.close()


def received(listener: Channel, count: int) -> list[str]:
    payloads: list[str] = []
    while len(payloads) < count:
        arrived = listener.wait(TIMEOUT_SECONDS)
        assert arrived, "no payload arrives"
        payloads += arrived
    return payloads


def test_payloads_reach_a_listening_end_in_order(channels: tuple[Channel, Channel]) -> None:
    sender, listener = channels
    sender.send(["before listening"])
    listener.listen()
    largest = "ü" * (PAYLOAD_BYTES_MAX // 2)
    sender.send(["one", "two's", largest])
    sender.send(["three"])
    assert received(listener, 4) == ["one", "two's", largest, "three"]
    assert listener.wait(0.0) == []


def test_lost_connection_raises_and_the_next_call_reconnects(
    channels: tuple[Channel, Channel], postgres: PostgresServer
) -> None:
    sender, listener = channels
    listener.listen()
    sender.send(["one"])
    assert received(listener, 1) == ["one"]
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test_%' AND pid <> pg_backend_pid()"
    )
    with pytest.raises(DatabaseUnavailable, match="the channel between nodes was lost"):
        listener.wait(TIMEOUT_SECONDS)
    with pytest.raises(DatabaseUnavailable):
        sender.send(["two"])
    listener.listen()
    sender.send(["three"])
    assert received(listener, 1) == ["three"]
