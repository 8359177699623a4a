"""The poll's route, beyond the conformance cases: the body type, and a client that disconnects."""

from pathlib import Path

from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.events.api_versions import ApiBase
from restante.events.counters import EventCounters
from restante.events.inbox.poll import EventPoll
from restante.events.inbox.poll_schema import PollBody, StrictPollBody
from restante.events.inbox.routes import PollRoutes
from restante.web.routes import Access
from tests.events import inbox_fixture
from tests.events.default_options import poll_options
from tests.server.live_server import LiveServer


def routes(database: Database, *, is_lenient: bool) -> PollRoutes:
    options = poll_options(is_lenient=is_lenient)
    return PollRoutes(EventPoll(database, options, Presence(database), EventCounters()), ApiBase("/base", "v3.1"))


def test_body_is_parsed_strictly_or_not_as_configured(database: Database) -> None:
    for is_lenient, body_type in ((False, StrictPollBody), (True, PollBody)):
        made = routes(database, is_lenient=is_lenient).routes()
        assert [(route.path, route.access, route.body_type) for route in made] == [
            ("/base/events", Access.client, body_type),
        ]
        assert all(route.handler.__doc__ for route in made)


def test_disconnected_client_is_not_parked(tmp_path: Path) -> None:
    served = LiveServer(tmp_path, has_services=False)
    try:
        client = served.node.database.write_now(inbox_fixture.add_client)
        poll = served.node.events.poll
        for port in (served.plain_port, served.fast_port):
            with served.connect(port) as wire:
                wire.send(
                    b"POST /events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\n"
                    b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" % client.token.encode()
                )
                served.wait_until(lambda: poll.parked_count == 1)
            served.wait_until(lambda: poll.parked_count == 0)
    finally:
        served.close()
