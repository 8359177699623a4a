"""The audit trails in the console: who sees which, and what people did in it."""

from tests.console.console_server import ConsoleServer


def test_each_person_gets_the_trail_of_their_area(server: ConsoleServer) -> None:
    edge, event = server.add_edge_resources(), server.add_event_resources()
    with server.client("bank") as bank, server.client("site") as site, server.client("admin") as admin:
        assert bank.post(f"/console/events/{event.errored_jti}/release").status_code == 303
        shown = bank.get("/console/audit").text
        assert "event.released" in shown
        assert "bank@example.com" in shown
        assert "/console/audit/commands" not in shown
        assert edge.command_id in site.get("/console/audit").text
        tabs = admin.get("/console/audit").text
        for path in ("commands", "events", "access"):
            assert f'href="/console/audit/{path}"' in tabs
        key = admin.post("/console/keys/new", name="audited", role="viewer", scope="updates")
        assert key.status_code == 200
        assert "key.created" in admin.get("/console/audit/access").text


def test_events_trail_is_limited_to_the_clients_of_the_person(server: ConsoleServer) -> None:
    event = server.add_event_resources()
    with server.client("bank") as bank:
        bank.post(f"/console/events/{event.errored_jti}/drop")
    server.user_ids["stranger"] = server.add_person("stranger", "viewer@events:another")
    with server.client("stranger") as stranger:
        assert event.client_id not in stranger.get("/console/audit/events").text
