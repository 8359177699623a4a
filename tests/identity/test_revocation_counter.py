from restante.database.database import Database
from restante.identity import revocation_counter


def test_increment_adds_one(database: Database) -> None:
    before = database.read_now(revocation_counter.current)
    database.write_now(revocation_counter.increment)
    assert database.read_now(revocation_counter.current) == before + 1
