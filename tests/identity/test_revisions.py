from restante.database.database import Database
from restante.identity import revisions


def test_the_number_grows(database: Database) -> None:
    before = database.read_now(revisions.current)
    database.write_now(revisions.raise_revision)
    assert database.read_now(revisions.current) == before + 1
