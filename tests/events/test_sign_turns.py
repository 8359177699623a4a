import json

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events import sign_turns
from restante.events.sign_turns import SQL, START, Place
from tests.events import bank

_backlog = Query(
    "backlog",
    """INSERT INTO event_inbox (client, jti, txn, event_types, status, profile, created_at)
       WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 5000)
       SELECT :client, :status || number, 'txn', '[]', :status, 'open-banking', 0 FROM numbers""",
)
_claim = Query(
    "claim",
    """INSERT INTO event_signing_claims (client, batch, first_id, last_id, claimed_until)
       VALUES (:client, 1, :first_id, :last_id, :claimed_until)""",
)


def chosen(database: Database, limit: int, place: Place = START) -> tuple[list[int], Place]:
    rows, next_place = database.read_now(sign_turns.choose, place, limit)
    assert database.read_now(sign_turns.is_any_left, place, limit) == bool(rows)
    return [row["id"] for row in rows], next_place


def waiting(database: Database, *counts: int) -> list[list[int]]:
    """Clients with so many unsigned events each, put in client by client; their rows."""
    found = []
    for number, count in enumerate(counts):
        tpp = database.write_now(bank.add_client)
        found.append(database.write_now(bank.put_unsigned, tpp.id, *(f"{number}-{each}" for each in range(count))))
    return found


def test_everybody_has_a_share_and_who_has_more_gets_the_rest(database: Database) -> None:
    busy, little, single = waiting(database, 20, 2, 1)
    ids, place = chosen(database, 9)
    assert sorted(ids) == busy[:6] + little + single
    assert chosen(database, 100, place)[0] == busy[6:]


def test_each_clients_rows_come_in_their_order(database: Database) -> None:
    one, other = waiting(database, 7, 5)
    found: list[int] = []
    place = START
    while (batch := chosen(database, 3, place))[0]:
        found += batch[0]
        place = batch[1]
    assert [each for each in found if each in one] == one
    assert [each for each in found if each in other] == other
    assert len(found) == 12


def test_more_clients_than_have_room_take_turns(database: Database) -> None:
    rows = waiting(database, 3, 3, 3, 3, 3)
    place = START
    found = []
    for _ in range(5):
        ids, place = chosen(database, 2, place)
        found.append(ids)
    first, second = [each[0] for each in rows], [each[1] for each in rows]
    assert found == [first[:2], first[2:4], [first[4], second[4]], second[:2], second[2:4]]


def test_clients_of_whom_nothing_is_left_hide_nobody(database: Database) -> None:
    rows = waiting(database, 1, 1, 1, 1)
    reached = {client: own[0] for client, own in zip(_ids(database)[:3], rows, strict=False)}
    assert chosen(database, 1, Place(reached))[0] == rows[3]
    assert chosen(database, 1, Place(reached, beyond=max(_ids(database))))[0] == rows[3]


def test_nothing_left_ends_the_round(database: Database) -> None:
    waiting(database, 2)
    ids, place = chosen(database, 5)
    assert len(ids) == 2
    assert chosen(database, 5, place) == ([], Place(place.reached))


def test_claimed_rows_are_passed_over_until_their_time_is_over(database: Database) -> None:
    [ids] = waiting(database, 5)
    [client] = _ids(database)

    def claim(conn: Connection) -> None:
        until = conn.now_ms + 1000
        conn.run(_claim, client=client, first_id=ids[1], last_id=ids[2], claimed_until=until)

    database.write_now(claim)
    assert chosen(database, 2)[0] == [ids[0], ids[3]]
    database.write_now(lambda conn: conn.run(Query("end", "UPDATE event_signing_claims SET claimed_until = 1")))
    assert chosen(database, 2)[0] == ids[:2]


def test_a_backlog_is_not_walked_through(database: Database, engine_name: str) -> None:
    """Finding clients and their first rows are steps in the index of unsigned rows."""
    waiting(database, 3, 3)
    database.write_now(_add_backlog, *_ids(database))
    turns = json.dumps([{"client": client, "after": 0} for client in _ids(database)])
    for plan in (
        _plan(database, engine_name, SQL.waiting, beyond=0, limit=10),
        _plan(database, engine_name, SQL.of_each, turns=turns, share=2, now_ms=0),
    ):
        assert "ix_event_inbox_unsigned" in plan
        assert "SCAN i" not in plan
        assert "Seq Scan on event_inbox" not in plan


def _add_backlog(conn: Connection, unsigned: int, ready: int) -> None:
    conn.run(_backlog, client=unsigned, status="unsigned")
    conn.run(_backlog, client=ready, status="ready")


def _plan(database: Database, engine_name: str, query: Query, **parameters: object) -> str:
    explain = "EXPLAIN QUERY PLAN " if engine_name == "sqlite" else "EXPLAIN "
    explained = Query("explained", explain + query.for_engine(engine_name))
    return database.read_now(lambda conn: "\n".join(str(values) for values in conn.values(explained, **parameters)))


def _ids(database: Database) -> list[int]:
    clients = Query("clients", "SELECT id FROM event_clients ORDER BY id")
    return [row["id"] for row in database.read_now(lambda conn: conn.all(clients))]
