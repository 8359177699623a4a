from collections.abc import Iterable

from structlog.testing import capture_logs

from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.authentication import assertions
from restante.events.clients.clients import ClientRegistration
from restante.events.clients.component import ClientAccessComponent
from restante.web.client_cert import ClientCertificates
from tests.events.default_options import access_options, remote_keys, stored_poll


async def make_no_keys(_algorithms: Iterable[str]) -> None:
    """The tests of this module sign nothing."""


def test_component_has_routes_sweeps_and_counters(database: Database) -> None:
    component = ClientAccessComponent(
        database, ClientCertificates(), access_options(), make_no_keys, stored_poll, remote_keys(database)
    )
    names = [f"{route.method} {route.path}" for route in component.routes()]
    assert {"POST /token", "GET /.well-known/oauth-authorization-server"} <= set(names)
    assert component.sweeps() == [assertions.forget_expired]
    assert component.counters.requests["granted"] == 0


async def test_warning_is_logged_only_if_clients_exist(database: Database) -> None:
    component = ClientAccessComponent(
        database, ClientCertificates(), access_options(), make_no_keys, stored_poll, remote_keys(database)
    )
    with capture_logs() as without_clients:
        await component.warn()
    assert without_clients == []
    database.write_now(clients.add, ClientRegistration("n", "client_secret_basic"))
    with capture_logs() as logged:
        await component.warn()
    assert [entry["log_level"] for entry in logged] == ["warning"]
    assert "DEVELOPMENT" in logged[0]["event"]
    with capture_logs() as without_development:
        await ClientAccessComponent(
            database,
            ClientCertificates(),
            access_options(is_development=False),
            make_no_keys,
            stored_poll,
            remote_keys(database),
        ).warn()
    assert without_development == []
