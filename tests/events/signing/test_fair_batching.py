import json

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.signing import fair_batching
from restante.events.signing.fair_batching import ROUND_START, SQL, RoundPosition
from tests.events import inbox_fixture

_backlog = Query(
    "backlog",
    """INSERT INTO event_inbox (client, jti, txn, event_types, status, profile, created_at)
       WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 5000)
       SELECT :client, :status || number, 'txn', '[]', :status, 'open-banking', 0 FROM numbers""",
)
_lease = Query(
    "lease",
    """INSERT INTO event_signing_claims (client, batch, first_id, last_id, claimed_until)
       VALUES (:client, 1, :first_id, :last_id, :claimed_until)""",
)


def next_ids(database: Database, limit: int, position: RoundPosition = ROUND_START) -> tuple[list[int], RoundPosition]:
    rows, next_position = database.read_now(fair_batching.next_batch, position, limit)
    assert database.read_now(fair_batching.has_more, position, limit) == bool(rows)
    return [row["id"] for row in rows], next_position


def add_unsigned(database: Database, *counts: int) -> list[list[int]]:
    """Add clients with the given numbers of unsigned events; return the row ids of each."""
    found = []
    for number, count in enumerate(counts):
        tpp = database.write_now(inbox_fixture.add_client)
        found.append(
            database.write_now(inbox_fixture.put_unsigned, tpp.id, *(f"{number}-{each}" for each in range(count)))
        )
    return found


def test_each_client_gets_a_share_and_the_rest_goes_to_clients_with_more(database: Database) -> None:
    busy, little, single = add_unsigned(database, 20, 2, 1)
    ids, position = next_ids(database, 9)
    assert sorted(ids) == busy[:6] + little + single
    assert next_ids(database, 100, position)[0] == busy[6:]


def test_events_of_a_client_stay_in_order(database: Database) -> None:
    one, other = add_unsigned(database, 7, 5)
    found: list[int] = []
    position = ROUND_START
    while (batch := next_ids(database, 3, position))[0]:
        found += batch[0]
        position = batch[1]
    assert [each for each in found if each in one] == one
    assert [each for each in found if each in other] == other
    assert len(found) == 12


def test_clients_that_do_not_fit_come_in_the_next_batch(database: Database) -> None:
    rows = add_unsigned(database, 3, 3, 3, 3, 3)
    position = ROUND_START
    found = []
    for _ in range(5):
        ids, position = next_ids(database, 2, position)
        found.append(ids)
    first, second = [each[0] for each in rows], [each[1] for each in rows]
    assert found == [first[:2], first[2:4], [first[4], second[4]], second[:2], second[2:4]]


def test_finished_clients_do_not_hide_others(database: Database) -> None:
    rows = add_unsigned(database, 1, 1, 1, 1)
    last_ids = {client: own[0] for client, own in zip(_ids(database)[:3], rows, strict=False)}
    assert next_ids(database, 1, RoundPosition(last_ids))[0] == rows[3]
    assert next_ids(database, 1, RoundPosition(last_ids, after_client=max(_ids(database))))[0] == rows[3]


def test_round_ends_when_no_events_are_left(database: Database) -> None:
    add_unsigned(database, 2)
    ids, position = next_ids(database, 5)
    assert len(ids) == 2
    assert next_ids(database, 5, position) == ([], RoundPosition(position.last_ids))


def test_leased_rows_are_skipped_until_the_lease_expires(database: Database) -> None:
    [ids] = add_unsigned(database, 5)
    [client] = _ids(database)

    def lease(conn: Connection) -> None:
        until = conn.now_ms + 1000
        conn.run(_lease, client=client, first_id=ids[1], last_id=ids[2], claimed_until=until)

    database.write_now(lease)
    assert next_ids(database, 2)[0] == [ids[0], ids[3]]
    database.write_now(lambda conn: conn.run(Query("end", "UPDATE event_signing_claims SET claimed_until = 1")))
    assert next_ids(database, 2)[0] == ids[:2]


def test_backlog_is_not_scanned(database: Database, engine_name: str) -> None:
    """Both queries step through the index of unsigned events."""
    add_unsigned(database, 3, 3)
    database.write_now(_add_backlog, *_ids(database))
    starts = json.dumps([{"client": client, "after": 0} for client in _ids(database)])
    for plan in (
        _plan(database, engine_name, SQL.clients_with_unsigned, after_client=0, limit=10),
        _plan(database, engine_name, SQL.oldest_of_each, starts=starts, share=2, now_ms=0),
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
