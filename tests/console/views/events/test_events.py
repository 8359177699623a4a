"""Publishing and checking events in the console, without a browser."""

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
