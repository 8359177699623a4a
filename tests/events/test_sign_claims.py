import pytest

from restante.database.database import Database
from restante.events import sign_claims
from tests.conftest import ENGINES, ManualClock
from tests.events import bank

pytestmark = pytest.mark.parametrize("engine_name", ENGINES)


def taken(database: Database, limit: int, after: int = 0) -> tuple[int | None, list[int]]:
    claim, rows = database.write_now(sign_claims.take, after, limit)
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
    assert taken(database, 5, ids[0])[1] == ids[1:]


def test_a_claim_runs_out(database: Database, clock: ManualClock) -> None:
    tpp = database.write_now(bank.add_client)
    ids = database.write_now(bank.put_unsigned, tpp.id, "a")
    taken(database, 2)
    clock.advance(sign_claims.CLAIM_SECONDS)
    assert taken(database, 2)[1] == ids


def test_nothing_to_release_is_no_mistake(database: Database) -> None:
    database.write_now(sign_claims.release, None)
