"""What of the application's way the conformance cases do not show: who is told of it, and a client that hangs up."""

from pathlib import Path

from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.events.poll import EventPoll, PollOptions
from restante.events.poll_body import PollBody, StrictPollBody
from restante.events.routes_poll import PollRoutes
from restante.events.totals import EventTotals
from restante.web.routes import Access
from tests.events import bank
from tests.server.serving import Served


def routes(database: Database, *, is_lenient: bool) -> PollRoutes:
    options = PollOptions(is_lenient=is_lenient)
    return PollRoutes(EventPoll(database, options, Presence(database), EventTotals()), ["", "/base"])


def test_the_body_is_read_strictly_or_not_as_configured(database: Database) -> None:
    for is_lenient, body_type in ((False, StrictPollBody), (True, PollBody)):
        made = routes(database, is_lenient=is_lenient).routes()
        assert [(route.path, route.access, route.body_type) for route in made] == [
            ("/events", Access.client, body_type),
            ("/base/events", Access.client, body_type),
        ]
        assert all(route.handler.__doc__ for route in made)


def test_who_hangs_up_does_not_wait_on(tmp_path: Path) -> None:
    served = Served(tmp_path, is_still=True)
    try:
        client = served.node.database.write_now(bank.add_client)
        bell = served.node.events.poll.bell
        for port in (served.plain_port, served.fast_port):
            with served.connect(port) as wire:
                wire.send(
                    b"POST /events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\n"
                    b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" % client.token.encode()
                )
                served.until(lambda: bell.waiting_count == 1)
            served.until(lambda: bell.waiting_count == 0)
    finally:
        served.close()
