import asyncio

import pytest

from restante.core.cursor import START, Position
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.log import log_reader
from restante.delivery.log.log import LogSlice
from restante.delivery.log.log_reader import LogReader, ReadResult
from tests.defaults import append_signals
from tests.delivery.busy_database import hold_readers
from tests.delivery.rows import signal

TIMEOUT_SECONDS = 10.0


class FutureReader:
    """A log reader with a future for each result."""

    def __init__(self, database: Database) -> None:
        self.reader = LogReader(database)

    def read(self, device_id: int, cursor: Position | None = START, limit: int = 20) -> "asyncio.Future[ReadResult]":
        result: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
        self.reader.read(device_id, cursor, limit, result.set_result)
        return result


async def all_of(*results: "asyncio.Future[ReadResult]") -> list[ReadResult]:
    return await asyncio.wait_for(asyncio.gather(*results), TIMEOUT_SECONDS)


async def test_each_request_gets_its_own_result(database: Database, device: int, other_device: int) -> None:
    database.write_now(append_signals, device, [signal(1), signal(2)])
    reader = FutureReader(database)
    first, limited, none, expired = await all_of(
        reader.read(device),
        reader.read(device, None, 1),
        reader.read(other_device),
        reader.read(device, Position(1, 1_000)),
    )
    assert isinstance(first, LogSlice)
    assert [entry.position.n for entry in first.entries] == [1, 2]
    assert isinstance(limited, LogSlice)
    assert [entry.position.n for entry in limited.entries] == [2]
    assert isinstance(none, LogSlice)
    assert none.entries == []
    assert isinstance(expired, LogSlice)
    (beyond,) = await all_of(reader.read(other_device, Position(1, 1)))
    assert isinstance(beyond, CursorExpired)


async def test_requests_during_a_batch_form_the_next_batch(
    database: Database, device: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    read_batch = log_reader.read_batch

    def counted(conn: Connection, batch: list[log_reader.ReadRequest]) -> list[ReadResult]:
        batches.append(len(batch))
        return read_batch(conn, batch)

    monkeypatch.setattr(log_reader, "read_batch", counted)
    monkeypatch.setattr(log_reader, "BATCH_MAX", 8)
    reader = FutureReader(database)
    release = hold_readers(database)
    first = reader.read(device)
    await asyncio.sleep(0)
    rest = [reader.read(device) for _ in range(20)]
    release()
    await all_of(first, *rest)
    assert batches == [1, 8, 8, 4]


async def test_read_requested_by_a_callback_is_read_too(database: Database, device: int) -> None:
    reader = LogReader(database)
    again: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
    reader.read(device, START, 20, lambda _first: reader.read(device, START, 20, again.set_result))
    assert isinstance(await asyncio.wait_for(again, TIMEOUT_SECONDS), LogSlice)


async def test_failing_callback_affects_no_other_request(database: Database, device: int) -> None:
    def broken(_result: ReadResult) -> None:
        raise RuntimeError("the transport is closed")

    reader = FutureReader(database)
    release = hold_readers(database)
    before = reader.read(device)
    reader.reader.read(device, START, 20, broken)
    after = reader.read(device)
    release()
    await all_of(before, after)
    await all_of(reader.read(device))


async def test_database_error_reaches_every_request_of_the_batch_only(
    database: Database, device: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = FutureReader(database)

    def broken(_conn: Connection, _batch: list[log_reader.ReadRequest]) -> list[ReadResult]:
        raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(log_reader, "read_batch", broken)
        results = await all_of(reader.read(device), reader.read(device))
    assert [type(result) for result in results] == [OSError, OSError]
    (result,) = await all_of(reader.read(device))
    assert isinstance(result, LogSlice)


async def test_closed_database_fails_the_request(database: Database, device: int) -> None:
    database.close()
    (result,) = await all_of(FutureReader(database).read(device))
    assert isinstance(result, Exception)
