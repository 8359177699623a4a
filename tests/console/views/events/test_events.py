"""Publishing and checking events in the console, without a browser."""

import re
from itertools import takewhile

import pytest

from restante.console import pages
from tests.console.console_server import ConsoleServer
from tests.server.event_resources import EventResources


def test_form_with_a_wrong_subject_is_shown_again_with_the_problem(server: ConsoleServer) -> None:
    event: EventResources = server.add_event_resources()
    fields = {"recipient": event.client_id, "events": '{"urn:example:events:x": {}}', "sub": "no uri at all"}
    with server.client("bank") as client:
        response = client.post("/console/events/new", **fields)
    assert response.status_code == 400
    assert "Sub: expected a URI" in response.text
    assert "no uri at all" in response.text


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
