import re
from pathlib import Path
from typing import Any

import pytest

from restante.commands.audit import audit_trail
from restante.commands.sites import collectors
from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.redis import redis_log
from restante.events.push.pusher import AUTHORIZATION_PURPOSE
from restante.identity import signing_keys
from restante.identity.devices import refresh_key
from restante.identity.master_key import MasterKey
from restante.identity.reseal import resealing
from restante.identity.reseal.sealed_columns import DERIVED_PURPOSES, SEALED_COLUMNS, SealedColumn
from restante.updates.pki.crypto import sealing
from tests.identity.test_signing_keys import SEALED, insert_owners, write

MIGRATIONS = Path(signing_keys.__file__).parents[1] / "database" / "migrations"
SOURCES = Path(signing_keys.__file__).parents[1]
OLD, NEW = MasterKey(bytes(32)), MasterKey(b"n" * 32)
BOTH = OLD.sealing_with(NEW.key_id, [NEW])
KEYS = 250

_SEALED_CAS = Query("cas", "SELECT sealed_key FROM certificate_authorities ORDER BY id")
_BREAK = Query("break", "UPDATE certificate_authorities SET sealed_key = :sealed")


def fill(database: Database) -> None:
    """More signing keys than a page has, and an authority."""
    insert_owners(database)
    write(database, f"INSERT INTO certificate_authorities {SEALED['certificate_authorities'][1]}")
    sealed = OLD.seal(b"key", sealing.AUTHORITY_KEY_PURPOSE)
    database.write_now(lambda conn: conn.run(_BREAK, sealed=sealed))
    database.write_now(add_signing_keys)


def add_signing_keys(conn: Connection) -> None:
    for _ in range(KEYS):
        signing_keys.rotate(conn, signing_keys.make(OLD), 3600)


def run_pass(database: Database) -> resealing.PassResult:
    return resealing.run_pass(database, BOTH, lambda _column, _result: None)


def test_every_sealed_column_of_the_schema_is_listed() -> None:
    named = re.compile(r"\b(sealed_\w+|(?:old_)?hmac_secret)\s+BLOB")
    table = re.compile(r"(?:CREATE TABLE|ALTER TABLE) (\w+)")
    found = set()
    for path in MIGRATIONS.glob("*.sql"):
        current = ""
        for line in path.read_text().splitlines():
            current = match[1] if (match := table.search(line)) else current
            found |= {(current, column) for column in named.findall(line)}
    assert found == {(each.table, each.column) for each in SEALED_COLUMNS}


def test_every_purpose_is_listed() -> None:
    purposes = {each.purpose for each in SEALED_COLUMNS}
    assert {
        sealing.AUTHORITY_KEY_PURPOSE,
        sealing.DATA_KEY_PURPOSE,
        collectors.SECRET_PURPOSE,
        collectors.PARAMS_PURPOSE,
        AUTHORIZATION_PURPOSE,
    } <= purposes
    derived = {audit_trail.KEY_PURPOSE, collectors.BODY_PURPOSE, redis_log.KEY_PURPOSE, refresh_key.PURPOSE}
    assert derived | {"device codes", "sign-in limits"} == set(DERIVED_PURPOSES)
    uses = [line for path in SOURCES.rglob("*.py") for line in re.findall(r"\.derive_key\(.+\)", path.read_text())]
    # One more is the change of the master key itself.
    assert len(uses) == len(DERIVED_PURPOSES) + 2, "a key that is derived for a new purpose must be listed"


def test_values_of_every_column_are_resealed(database: Database) -> None:
    insert_owners(database)
    for table, (_, values) in SEALED.items():
        write(database, f"INSERT INTO {table} {values}")
    for column in SEALED_COLUMNS:
        database.write_now(seal_column, column)
    assert run_pass(database).resealed == len(SEALED_COLUMNS)
    for column in SEALED_COLUMNS:
        row = database.read_now(only_row, column)
        assert NEW.open(row[column.column], column.purpose_of(row)) == column.table.encode()


def seal_column(conn: Connection, column: SealedColumn) -> None:
    put = Query("put", f"UPDATE {column.table} SET {column.column} = :sealed")
    conn.run(put, sealed=OLD.seal(column.table.encode(), column.purpose_of(only_row(conn, column))))


def only_row(conn: Connection, column: SealedColumn) -> Row:
    [row] = conn.all(Query("all", f"SELECT * FROM {column.table}"))
    return row


def test_pass_puts_every_value_under_the_new_key_and_the_next_one_finds_nothing(database: Database) -> None:
    fill(database)
    first = run_pass(database)
    assert (first.values, first.resealed, first.unreadable) == (KEYS + 1, KEYS + 1, 0)
    second = run_pass(database)
    assert (second.values, second.resealed, second.unreadable) == (KEYS + 1, 0, 0)
    assert resealing.run_pass(database, NEW, lambda _column, _result: None).unreadable == 0


def test_interrupted_pass_continues_where_it_was(database: Database) -> None:
    fill(database)

    def stop(_column: Any, result: resealing.PassResult) -> None:
        if result.resealed >= 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resealing.run_pass(database, BOTH, stop)
    assert run_pass(database).resealed == KEYS + 1 - resealing.BATCH_ROWS


def test_value_that_changes_meanwhile_is_left_to_the_next_pass(database: Database) -> None:
    fill(database)
    newer = OLD.seal(b"newer", sealing.AUTHORITY_KEY_PURPOSE)

    class Racing(MasterKey):
        """Another process replaces the value while it is sealed."""

        def seal(self, plain: bytes, purpose: str) -> bytes:
            if purpose == sealing.AUTHORITY_KEY_PURPOSE:
                database.write_now(lambda conn: conn.run(_BREAK, sealed=newer))
            return super().seal(plain, purpose)

    racing = Racing(bytes(32))
    racing.become(BOTH)
    resealing.run_pass(database, racing, lambda _column, _result: None)
    assert [row["sealed_key"] for row in database.read_now(lambda conn: conn.all(_SEALED_CAS))] == [newer]
    assert run_pass(database).resealed == 1
    [row] = database.read_now(lambda conn: conn.all(_SEALED_CAS))
    assert NEW.open(row["sealed_key"], sealing.AUTHORITY_KEY_PURPOSE) == b"newer"


def test_value_that_no_key_opens_is_named_and_left_alone(database: Database) -> None:
    fill(database)
    database.write_now(lambda conn: conn.run(_BREAK, sealed=b"\x01" + bytes(40)))
    result = run_pass(database)
    assert (result.resealed, result.unreadable) == (KEYS, 1)
    assert result.unreadable_names[0].startswith("certificate_authorities.sealed_key of ")
    assert run_pass(database).resealed == 0
