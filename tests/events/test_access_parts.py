from restante.database.database import Database
from restante.events import assertions
from restante.events.access import AccessOptions
from restante.events.access_parts import EventAccess
from restante.web.peer import Peers


def test_everything_is_there(database: Database) -> None:
    access = EventAccess(database, Peers(), AccessOptions())
    names = [f"{route.method} {route.path}" for route in access.routes()]
    assert {"POST /token", "GET /.well-known/oauth-authorization-server"} <= set(names)
    assert access.sweeps() == [assertions.forget_expired]
    assert access.totals.requests["granted"] == 0
