from typing import Any

import psycopg
import pytest

from restante.database.errors import DatabaseRefused, DatabaseUnavailable
from restante.database.postgres import PostgresEngine
from restante.database.postgres_refusals import is_for_good
from tests.services.postgres import PASSWORD, PostgresServer

PASSING = [
    'connection to server at "127.0.0.1", port 5432 failed: Connection refused',
    'connection to server on socket "/x" failed: FATAL:  the database system is starting up',
    'connection to server on socket "/x" failed: FATAL:  the database system is not yet accepting connections',
    'connection to server on socket "/x" failed: FATAL:  sorry, too many clients already',
    'connection to server on socket "/x" failed: session is read-only',
    "failed to resolve host 'db.example.com': [Errno -3] Temporary failure in name resolution",
    "connection timeout expired",
    'FATAL:  das Datenbanksystem startet "',
]


@pytest.mark.parametrize("said", PASSING)
def test_what_may_pass_is_waited_for(said: str) -> None:
    assert not is_for_good(said)


def test_of_several_servers_all_must_have_refused_for_good() -> None:
    refused = "- host: 'a', port: None, hostaddr: None: FATAL:  password authentication failed for user \"x\""
    starting = "- host: 'b', port: None, hostaddr: None: FATAL:  the database system is starting up"
    first = (
        'connection failed: FATAL:  password authentication failed for user "x"\nMultiple connection attempts failed.'
    )
    assert is_for_good("\n".join([first, refused, refused]))
    assert not is_for_good("\n".join([first, refused, starting]))


def test_what_a_server_says(postgres: PostgresServer) -> None:
    """By a real one: whether its words, and the driver's, are still those."""
    url = postgres.create()
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE ROLE asleep NOLOGIN PASSWORD 'x'")
    known: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    for wrong in (
        {"password": "other"},
        {"password": ""},
        {"dbname": "not_there"},
        {"user": "nobody"},
        {"user": "asleep", "password": "x"},
        {"options": "-c nothing=1"},
        {"host": f"{postgres.folder},{postgres.folder}", "dbname": "not_there"},
    ):
        with pytest.raises(DatabaseRefused) as refused:
            PostgresEngine(psycopg.conninfo.make_conninfo(**{**known, **wrong})).connect(writable=True)
        assert PASSWORD not in str(refused.value)
    for passing in ({"host": "/nowhere"}, {"host": f"/nowhere,{postgres.folder}", "dbname": "not_there"}):
        with pytest.raises(DatabaseUnavailable) as raised:
            PostgresEngine(psycopg.conninfo.make_conninfo(**{**known, **passing})).connect(writable=True)
        assert not isinstance(raised.value, DatabaseRefused)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("DROP ROLE asleep")
