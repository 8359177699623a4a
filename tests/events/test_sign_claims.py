from restante.database.database import Database
from restante.events import sign_claims
from restante.events.sign_turns import START, Place
from tests.conftest import ManualClock
from tests.events import bank


def taken(database: Database, limit: int, place: Place = START) -> tuple[int | None, list[int]]:
    claim, rows, _next_place = database.write_now(sign_claims.take, place, limit)
    return claim, [row["id"] for row in rows]


def test_nobody_is_given_what_another_has(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    ids = database.write_now(bank.put_unsigned, tpp.id, "a", "b", "c")
    first, mine = taken(database, 2)
    _second, others = taken(database, 2)
    assert (mine, others) == (ids[:2], ids[2:])
    assert taken(database, 2) == (None, [])
    database.write_now(sign_claims.release, first)
    assert taken(database, 2)[1] == ids[:2]


def test_rows_behind_a_place(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    ids = database.write_now(bank.put_unsigned, tpp.id, "a", "b", "c")
    assert taken(database, 5, Place({tpp.id: ids[0]}))[1] == ids[1:]


def test_what_another_has_of_one_client_does_not_hide_the_others(database: Database) -> None:
    one, other = (database.write_now(bank.add_client) for _ in range(2))
    ids = database.write_now(bank.put_unsigned, one.id, "a", "b", "c", "d")
    late = database.write_now(bank.put_unsigned, other.id, "e")
    assert sorted(taken(database, 3)[1]) == [*ids[:2], *late]
    assert taken(database, 3)[1] == ids[2:]


def test_a_claim_runs_out(database: Database, clock: ManualClock) -> None:
    tpp = database.write_now(bank.add_client)
    ids = database.write_now(bank.put_unsigned, tpp.id, "a")
    taken(database, 2)
    clock.advance(sign_claims.CLAIM_SECONDS)
    assert taken(database, 2)[1] == ids


def test_nothing_to_release_is_no_mistake(database: Database) -> None:
    database.write_now(sign_claims.release, None)
