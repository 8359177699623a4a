"""Every page of the console, opened by every kind of person: who sees it, and that nothing changes for others.

The table states independently who may open what. A page that is added without a line here fails the test.
"""

import re
from typing import NamedTuple

import httpx
import pytest

from restante.web.routes import Route
from tests.console.console_server import ConsoleServer, run_job, start_rollout

EVERYONE = ("admin", "fleet", "site", "approver", "bank", "viewer")
FLEET = ("admin", "fleet")
# The viewer may see one client, which does not exist: lists are open, and everything else is missing.
BANK = ("admin", "bank")
COMMANDS = ("admin", "site", "approver")
ANY_ADMIN = ("admin", "fleet")
# Routes without a session: the redirect of the root, the sign-in page, assets, invitations.
OPEN = {"GET /", "GET /console/sign-in", "POST /console/sign-in", "GET /console/assets/{name}"}
OPEN |= {"GET /console/invitation", "POST /console/invitation"}
# The stream never ends, and the last route answers every other path.
SPECIAL = {"GET /console/live", "GET /console/{rest:path}"}


class Rule(NamedTuple):
    """Who may use the pages whose path begins with this."""

    prefix: str
    people: tuple[str, ...]


# The first rule whose prefix fits counts.
RULES = [
    Rule("/console/search", EVERYONE),
    Rule("/console/rollouts/", FLEET),
    Rule("/console/rollouts", EVERYONE),
    Rule("/console/jobs/new", FLEET),
    Rule("/console/jobs/", FLEET),
    Rule("/console/jobs", EVERYONE),
    Rule("/console/sign-out", EVERYONE),
    Rule("/console/devices", FLEET),
    Rule("/console/certificates", FLEET),
    Rule("/console/outbox", FLEET),
    Rule("/console/audit/verify", ("admin",)),
    Rule("/console/audit/access", ("admin",)),
    Rule("/console/audit/events", (*BANK, "viewer")),
    Rule("/console/audit/commands", COMMANDS),
    Rule("/console/commands/new", ("admin", "site", "approver")),
    Rule("/console/audit", (*COMMANDS, "bank", "viewer")),
    Rule("/console/approvals", EVERYONE),
    *(Rule(f"/console/{name}", COMMANDS) for name in ("sites", "miners", "commands")),
    *(Rule(f"/console/{name}", BANK) for name in ("clients/", "events/", "event-keys")),
    *(Rule(f"/console/{name}", (*BANK, "viewer")) for name in ("clients", "events")),
    Rule("/console/people", ANY_ADMIN),
    Rule("/console/keys", ANY_ADMIN),
    Rule("/console/settings", ("admin",)),
    Rule("/console", EVERYONE),
]


class Filled(NamedTuple):
    """The server, and a value for each parameter of a path."""

    server: ConsoleServer
    values: dict[str, str]

    def path(self, route: Route) -> str:
        path = re.sub(r"{(\w+)}", lambda found: self.values[found[1]], route.path)
        return f"{path}?target=outbox" if path == "/console/jobs/new" else path


@pytest.fixture(scope="module")
def filled(server: ConsoleServer) -> Filled:
    return fill(server)


def fill(server: ConsoleServer) -> Filled:
    device_id = server.add_full_device()
    edge, event = server.add_edge_resources(), server.add_event_resources()
    target = server.add_person("target", "viewer@updates:1")
    row_id = server.add_failed_row(device_id)
    with server.client("fleet") as fleet:
        rollout_path = start_rollout(fleet, "till-front", "100%")
        job_path = run_job(fleet, **{"filter.device_id": str(device_id), "rate": "1"})
    return Filled(
        server,
        {
            "device_id": str(device_id),
            "version": "1",
            "row_id": str(row_id),
            "rollout_id": rollout_path.rpartition("/")[2],
            "job_id": job_path.rpartition("/")[2],
            "person_id": str(target),
            "key_id": str(server.add_updates_key()),
            "user_id": str(server.owner_id),
            "certificate_id": "1",
            "cert_id": "1",
            "ca_id": "1",
            "group_id": "1",
            "filter_id": "1",
            "site_id": str(edge.site_id),
            "miner_id": str(edge.miner_id),
            "rule_id": str(edge.rule_id),
            "command_id": edge.pending_id,
            "change": "disable",
            "client_id": event.client_id,
            "jti": event.errored_jti,
            "kid": event.kid,
        },
    )


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def people_of(route: Route) -> tuple[str, ...]:
    return next(rule.people for rule in RULES if route.path.startswith(rule.prefix))


def guarded(filled: Filled, method: str) -> list[Route]:
    routes = [route for route in filled.server.node.pages() if route.method == method]
    return [route for route in routes if name_of(route) not in OPEN | SPECIAL]


def test_page_is_open_to_those_who_may_see_it_and_does_not_exist_for_others(filled: Filled) -> None:
    for person in EVERYONE:
        with filled.server.client(person) as client:
            for route in guarded(filled, "GET"):
                expected = 200 if person in people_of(route) else 404
                response = client.get(filled.path(route))
                assert response.status_code == expected, f"{person}: {name_of(route)}"
                assert ("<h1>Not found</h1>" in response.text) == (expected == 404)


def test_strangers_are_asked_to_sign_in_for_every_page(filled: Filled) -> None:
    with filled.server.client(None) as nobody:
        for route in guarded(filled, "GET"):
            response = nobody.get(filled.path(route))
            assert response.status_code == 303
            assert response.headers["location"].startswith("/console/sign-in?next=")


def test_action_is_refused_without_grant_session_token_or_origin(filled: Filled) -> None:
    """Before anything is read: the paths name things that exist."""
    server = filled.server
    with server.client("viewer") as viewer, server.client(None) as nobody, server.client("admin") as admin:
        viewer_token, admin_token = viewer.form_token(), admin.form_token()
        for route in guarded(filled, "POST"):
            path = filled.path(route)
            if "viewer" not in people_of(route):
                assert viewer.post(path, token=viewer_token).status_code in (403, 404), name_of(route)
            assert nobody.post(path, token=viewer_token).status_code == 401, name_of(route)
            assert admin.post(path, token=viewer_token).status_code == 403, name_of(route)
            assert admin.post(path, token=admin_token, origin="https://evil.example").status_code == 403, name_of(route)


def test_links_in_the_menu_lead_to_pages_that_the_person_may_open(filled: Filled) -> None:
    for person in EVERYONE:
        with filled.server.client(person) as client:
            page = client.get("/console").text
            links = set(re.findall(r'<li><a href="(/console[^"]*)"', page))
            assert "/console" in links
            assert {path: client.get(path).status_code for path in links} == dict.fromkeys(links, 200)


def test_pages_are_not_in_the_openapi_document(filled: Filled) -> None:
    response = httpx.get(f"{filled.server.base_url}/openapi.json", timeout=60)
    assert [path for path in response.json()["paths"] if path.startswith("/console")] == []
