from structlog.testing import capture_logs

from restante.database.database import Database
from restante.events import assertions, clients
from restante.events.access import AccessOptions
from restante.events.access_parts import EventAccess
from restante.events.clients import Registration
from restante.web.peer import Peers


def test_everything_is_there(database: Database) -> None:
    access = EventAccess(database, Peers(), AccessOptions())
    names = [f"{route.method} {route.path}" for route in access.routes()]
    assert {"POST /token", "GET /.well-known/oauth-authorization-server"} <= set(names)
    assert access.sweeps() == [assertions.forget_expired]
    assert access.totals.requests["granted"] == 0


async def test_who_has_clients_is_warned_and_nobody_else(database: Database) -> None:
    access = EventAccess(database, Peers(), AccessOptions())
    with capture_logs() as silent:
        await access.warn()
    assert silent == []
    database.write_now(clients.add, Registration("n", "client_secret_basic"))
    with capture_logs() as said:
        await access.warn()
    assert [entry["log_level"] for entry in said] == ["warning"]
    assert "DEVELOPMENT" in said[0]["event"]
    with capture_logs() as fine:
        await EventAccess(database, Peers(), AccessOptions(is_development=False)).warn()
    assert fine == []
