from pathlib import Path
from typing import Any

import psycopg
import pytest

from restante.database.errors import DatabaseRefused, DatabaseUnavailable
from restante.database.postgres import PostgresEngine
from restante.database.postgres_refusals import is_for_good
from restante.database.queries import Query
from tests.pki import pki
from tests.services.postgres import PASSWORD, PostgresServer, postgres_server

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


def test_with_tls_the_servers_certificate_and_name_are_looked_at(tmp_path: Path) -> None:
    """As an address says that asks for it; whoever is not to be trusted is told nothing, and not waited for."""
    ours, foreign = pki().authority.certificate, pki().foreign_authority.certificate
    with postgres_server(tls=pki().server) as server:
        whole = {"sslmode": "verify-full"}
        connected = PostgresEngine(server.tls_url("postgres", **whole, sslrootcert=ours)).connect(writable=True)
        try:
            connected.begin()
            (row,) = connected.all(Query("tls", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
            assert row["ssl"] is True
        finally:
            connected.close()
        for wrong, why in ((foreign, "certificate verify failed"), (tmp_path / "absent.pem", "does not exist")):
            assert why in refusal_of(server.tls_url("postgres", **whole, sslrootcert=wrong))
    with postgres_server(tls=pki().issue("/CN=db", names="DNS:db.example.com")) as server:
        assert "does not match host name" in refusal_of(server.tls_url("postgres", **whole, sslrootcert=ours))
        PostgresEngine(server.tls_url("postgres", sslmode="verify-ca", sslrootcert=ours)).connect(writable=True).close()


def refusal_of(url: str) -> str:
    with pytest.raises(DatabaseRefused) as refused:
        PostgresEngine(url).connect(writable=True)
    assert PASSWORD not in str(refused.value)
    return str(refused.value)
