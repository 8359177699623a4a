"""Batched reads of devices' states."""

import asyncio

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.devices import device_owners, device_states
from restante.identity.devices.device_owners import Owned
from restante.identity.devices.device_states import DeviceStates, StateRequest, StateResult
from restante.updates.devices import devices
from tests.delivery.busy_database import hold_readers
from tests.identity.people_and_devices import add_device, add_user

TIMEOUT_SECONDS = 30.0


def read(states: DeviceStates, owned: Owned) -> "asyncio.Future[StateResult]":
    result: asyncio.Future[StateResult] = asyncio.get_running_loop().create_future()
    states.read(owned, result.set_result)
    return result


async def all_of(*results: "asyncio.Future[StateResult]") -> list[StateResult]:
    return await asyncio.wait_for(asyncio.gather(*results), TIMEOUT_SECONDS)


async def test_many_states_equal_those_read_one_by_one(database: Database) -> None:
    ada, ben = add_user(database), add_user(database, "ben@example.com")
    active, renewed, revoked, of_ben = (add_device(database, user) for user in (ada, ada, ada, ben))
    database.write_now(device_owners.end_access_tokens, renewed)
    database.write_now(devices.revoke, revoked)
    wanted = [
        Owned(device, user)
        for device in (active, renewed, revoked, of_ben, of_ben + 1, 2**63 - 1)
        for user in (ada, ben)
    ]
    one_by_one = [database.read_now(device_owners.token_generation, *owned) for owned in wanted]
    states = DeviceStates(database)
    assert await all_of(*(read(states, owned) for owned in wanted)) == one_by_one
    assert one_by_one == [0, None, 1, None, None, None, None, 0, None, None, None, None]


async def test_requests_during_a_batch_form_the_next_batch(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    read_batch = device_states.read_batch

    def counted(conn: Connection, batch: list[StateRequest]) -> list[int | None]:
        batches.append(len(batch))
        return read_batch(conn, batch)

    monkeypatch.setattr(device_states, "read_batch", counted)
    monkeypatch.setattr(device_states, "BATCH_MAX", 8)
    user = add_user(database)
    owned = Owned(add_device(database, user), user)
    states = DeviceStates(database)
    release = hold_readers(database)
    first = read(states, owned)
    await asyncio.sleep(0)
    rest = [read(states, owned) for _ in range(20)]
    release()
    assert await all_of(first, *rest) == [0] * 21
    assert batches == [1, 8, 8, 4]


async def test_failing_callback_affects_no_other_request(database: Database) -> None:
    def broken(_result: StateResult) -> None:
        raise RuntimeError("the transport is closed")

    user = add_user(database)
    owned = Owned(add_device(database, user), user)
    states = DeviceStates(database)
    release = hold_readers(database)
    before = read(states, owned)
    states.read(owned, broken)
    after = read(states, owned)
    release()
    assert await all_of(before, after) == [0, 0]
    assert await all_of(read(states, owned)) == [0]


async def test_database_error_reaches_every_request_of_the_batch_only(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_conn: Connection, _batch: list[StateRequest]) -> list[int | None]:
        raise OSError("gone")

    user = add_user(database)
    owned = Owned(add_device(database, user), user)
    states = DeviceStates(database)
    with monkeypatch.context() as patch:
        patch.setattr(device_states, "read_batch", broken)
        results = await all_of(read(states, owned), read(states, owned))
        with pytest.raises(OSError, match="gone"):
            await states.token_generation(owned)
    assert [type(result) for result in results] == [OSError, OSError]
    assert await states.token_generation(owned) == 0


async def test_cancelled_caller_affects_no_other(database: Database) -> None:
    user = add_user(database)
    owned = Owned(add_device(database, user), user)
    states = DeviceStates(database)
    release = hold_readers(database)
    cancelled = asyncio.ensure_future(states.token_generation(owned))
    other = asyncio.ensure_future(states.token_generation(owned))
    await asyncio.sleep(0)
    cancelled.cancel()
    release()
    assert await asyncio.wait_for(other, TIMEOUT_SECONDS) == 0
    with pytest.raises(asyncio.CancelledError):
        await cancelled
