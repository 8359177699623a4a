from pathlib import Path
from typing import Any

import psycopg
import pytest

from restante.database.errors import ConnectionRejected, DatabaseUnavailable
from restante.database.postgres.errors import is_permanent
from restante.database.queries import Query
from tests.defaults import new_postgres_engine
from tests.pki import pki
from tests.services.postgres import PASSWORD, PostgresServer, postgres_server

TEMPORARY = [
    'connection to server at "127.0.0.1", port 5432 failed: Connection refused',
    'connection to server on socket "/x" failed: FATAL:  the database system is starting up',
    'connection to server on socket "/x" failed: FATAL:  the database system is not yet accepting connections',
    'connection to server on socket "/x" failed: FATAL:  sorry, too many clients already',
    'connection to server on socket "/x" failed: session is read-only',
    "failed to resolve host 'db.example.com': [Errno -3] Temporary failure in name resolution",
    "connection timeout expired",
    'FATAL:  das Datenbanksystem startet "',
]


@pytest.mark.parametrize("message", TEMPORARY)
def test_temporary_errors_are_not_permanent(message: str) -> None:
    assert not is_permanent(message)


def test_errors_of_several_hosts_are_permanent_only_if_all_are() -> None:
    refused = "- host: 'a', port: None, hostaddr: None: FATAL:  password authentication failed for user \"x\""
    starting = "- host: 'b', port: None, hostaddr: None: FATAL:  the database system is starting up"
    first = (
        'connection failed: FATAL:  password authentication failed for user "x"\nMultiple connection attempts failed.'
    )
    assert is_permanent("\n".join([first, refused, refused]))
    assert not is_permanent("\n".join([first, refused, starting]))


def test_messages_of_a_real_server_are_classified(postgres: PostgresServer) -> None:
    """Detects a change of the texts in a new version of the server or the driver."""
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
        with pytest.raises(ConnectionRejected) as rejected:
            new_postgres_engine(psycopg.conninfo.make_conninfo(**{**known, **wrong})).connect(writable=True)
        assert PASSWORD not in str(rejected.value)
    for temporary in ({"host": "/nowhere"}, {"host": f"/nowhere,{postgres.folder}", "dbname": "not_there"}):
        with pytest.raises(DatabaseUnavailable) as raised:
            new_postgres_engine(psycopg.conninfo.make_conninfo(**{**known, **temporary})).connect(writable=True)
        assert not isinstance(raised.value, ConnectionRejected)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("DROP ROLE asleep")


def test_tls_verifies_certificate_and_host_name_of_the_server(tmp_path: Path) -> None:
    """If the URL asks for it. A server that fails the check is rejected for good and gets no password."""
    ours, foreign = pki().authority.certificate, pki().foreign_authority.certificate
    with postgres_server(tls=pki().server) as server:
        verify_full = {"sslmode": "verify-full"}
        connected = new_postgres_engine(server.tls_url("postgres", **verify_full, sslrootcert=ours)).connect(
            writable=True
        )
        try:
            connected.begin()
            (row,) = connected.all(Query("tls", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
            assert row["ssl"] is True
        finally:
            connected.close()
        for wrong, why in ((foreign, "certificate verify failed"), (tmp_path / "absent.pem", "does not exist")):
            assert why in rejection_by(server.tls_url("postgres", **verify_full, sslrootcert=wrong))
    with postgres_server(tls=pki().issue("/CN=db", names="DNS:db.example.com")) as server:
        assert "does not match host name" in rejection_by(server.tls_url("postgres", **verify_full, sslrootcert=ours))
        new_postgres_engine(server.tls_url("postgres", sslmode="verify-ca", sslrootcert=ours)).connect(
            writable=True
        ).close()


def rejection_by(url: str) -> str:
    with pytest.raises(ConnectionRejected) as rejected:
        new_postgres_engine(url).connect(writable=True)
    assert PASSWORD not in str(rejected.value)
    return str(rejected.value)
