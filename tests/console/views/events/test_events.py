"""Publishing and checking events in the console, without a browser."""

import re
from itertools import takewhile

import pytest

from restante.console import pages
from restante.core.backoff import Backoff
from restante.core.events.push_outcome import PushResult, PushRules
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.events.push import push_queue, receivers
from restante.events.push.push_queue import LeaseHolder
from tests.console.console_server import ConsoleServer
from tests.events import inbox_fixture
from tests.server.event_resources import EventResources

HOLDER = LeaseHolder("tests", 60_000)
RULES = PushRules(Backoff(1.0, 60.0, 20), give_up_seconds=86_400, circuit_failures=5, circuit_seconds=30)
_RETRY = Query("retry", "UPDATE event_receivers SET retry_at = 0 WHERE client = :client")
_PUSH_AT = Query("push_at", "UPDATE event_inbox SET push_at = :at WHERE jti = :jti")


def test_form_with_a_wrong_subject_is_shown_again_with_the_problem(server: ConsoleServer) -> None:
    event: EventResources = server.add_event_resources()
    fields = {"recipient": event.client_id, "events": '{"urn:example:events:x": {}}', "sub": "no uri at all"}
    with server.client("bank") as client:
        response = client.post("/console/events/new", **fields)
    assert response.status_code == 400
    assert "Sub: expected a URI" in response.text
    assert "no uri at all" in response.text


def test_event_shows_its_first_poll_and_every_failed_push(server: ConsoleServer) -> None:
    event: EventResources = server.add_event_resources()

    def push(conn: Connection) -> None:
        receivers.set_receiver(conn, event.client, "open-banking", "https://tpp.example/hook")
        for number in range(3):
            conn.run(_RETRY, client=event.client)
            conn.run(_PUSH_AT, jti=event.jti, at=0)
            [sent] = push_queue.acquire(conn, HOLDER, 10)
            assert sent.jti == event.jti
            push_queue.record_result(
                conn, HOLDER, RULES, sent, PushResult(None, f"problem {number}"), 0.0, keep_lease=False
            )
        # The server itself does not push it.
        conn.run(_PUSH_AT, jti=event.jti, at=None)

    server.database.write_now(inbox_fixture.deliver, event.client, event.jti)
    server.database.write_now(push)
    with server.client("bank") as client:
        page = client.get(f"/console/events/{event.jti}").text
    life = page[page.index('id="event-life"') : page.index('id="header"')]
    assert life.count("Delivered by a poll for the first time") == 1
    assert life.count("Push failed") == 3
    assert life.count("<time") == 5
    assert "problem 2" in life


def test_event_for_a_client_outside_the_grants_is_refused(server: ConsoleServer) -> None:
    event: EventResources = server.add_event_resources()
    name = f"one-client-{event.client_id}"
    server.user_ids[name] = server.add_person(name, "operator@events:another")
    fields = {"recipient": event.client_id, "events": '{"urn:example:events:x": {}}'}
    with server.client(name) as client:
        assert client.post("/console/events/new", **fields).status_code == 404
        everyone = client.post("/console/events/new", **{**fields, "recipient": "*"})
    assert everyone.status_code == 403


@pytest.mark.parametrize(
    "path",
    ["/console/events?txn=none", "/console/commands?by=none", "/console/devices?name=none", "/console/outbox"],
)
def test_page_does_not_wait_for_a_count_and_is_read_again_when_it_is_ready(
    server: ConsoleServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(pages, "COUNT_WAIT_SECONDS", 0)
    with server.client("admin") as client:
        # Nobody has used this filter before, so no count of it is kept.
        page = client.get(path).text
        assert re.findall(r'class="count">([^<]*)<', page).count("…") == page.count('class="count"')
        topics, position = (re.search(rf'data-{name}="([^"]+)"', page) for name in ("topics", "position"))
        assert topics
        assert position
        with client.http.stream("GET", f"/console/live?topics={topics[1]}&after={position[1]}") as stream:
            lines = list(takewhile(lambda line: not line.startswith("event: "), stream.iter_lines()))
    assert lines[0].startswith("retry: ")


def test_secret_parameter_is_not_shown_again_when_a_command_is_refused(server: ConsoleServer) -> None:
    edge = server.add_edge_resources()
    fields = {
        "command_type": "POOL_SET",
        "target": f"{edge.site_id}:{edge.miner_id}",
        "param_pool_user": "worker",
        "param_pool_password": "hunter2-is-secret",
    }
    with server.client("site") as client:
        response = client.post("/console/commands/new", **fields)
    assert response.status_code == 400
    assert "worker" in response.text
    assert "hunter2-is-secret" not in response.text
