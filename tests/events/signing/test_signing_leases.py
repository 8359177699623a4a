from restante.database.database import Database
from restante.events.signing import signing_leases
from restante.events.signing.fair_batching import ROUND_START, RoundPosition
from tests.conftest import ManualClock
from tests.events import inbox_fixture


def acquire(database: Database, limit: int, position: RoundPosition = ROUND_START) -> tuple[int | None, list[int]]:
    lease, rows, _next_position = database.write_now(signing_leases.acquire, position, limit)
    return lease, [row["id"] for row in rows]


def test_leased_rows_are_not_leased_again_until_released(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    ids = database.write_now(inbox_fixture.put_unsigned, tpp.id, "a", "b", "c")
    first, mine = acquire(database, 2)
    _second, others = acquire(database, 2)
    assert (mine, others) == (ids[:2], ids[2:])
    assert acquire(database, 2) == (None, [])
    database.write_now(signing_leases.release, first)
    assert acquire(database, 2)[1] == ids[:2]


def test_rows_after_the_position_are_leased(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    ids = database.write_now(inbox_fixture.put_unsigned, tpp.id, "a", "b", "c")
    assert acquire(database, 5, RoundPosition({tpp.id: ids[0]}))[1] == ids[1:]


def test_lease_on_one_client_does_not_hide_other_clients(database: Database) -> None:
    one, other = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    ids = database.write_now(inbox_fixture.put_unsigned, one.id, "a", "b", "c", "d")
    late = database.write_now(inbox_fixture.put_unsigned, other.id, "e")
    assert sorted(acquire(database, 3)[1]) == [*ids[:2], *late]
    assert acquire(database, 3)[1] == ids[2:]


def test_lease_expires(database: Database, clock: ManualClock) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    ids = database.write_now(inbox_fixture.put_unsigned, tpp.id, "a")
    acquire(database, 2)
    clock.advance(signing_leases.LEASE_SECONDS)
    assert acquire(database, 2)[1] == ids


def test_releasing_no_lease_does_nothing(database: Database) -> None:
    database.write_now(signing_leases.release, None)
