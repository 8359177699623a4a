"""Calls every route as a caller with access, with invalid requests; and checks the errors of all protocols."""

import json
import re
from typing import Any

import httpx

from restante.web.routes import Access, Route
from tests.server.edge_resources import is_edge
from tests.server.event_resources import is_event, is_ssf
from tests.server.populated_server import Callers, Headers, PopulatedServer, Resources, fill_path, is_job
from tests.server.valid_bodies import BODIES, valid_body
from tests.server.valid_edge_bodies import HANDLER_DECODED_BODIES

JSON = {"content-type": "application/json"}
# Tables that refused ACKs change: the audit trail and the sequences of ids.
# The tables that count failed sign-ins, and the paths of sign-ins.
SIGN_IN_RECORDS = {"sign_in_budgets"}
SIGN_IN_PATHS = {"/auth/general", "/device/sign-in"}
# The tables that record refused ACKs.
TRAIL = {"command_audit", "audit_checkpoints", "repeated_reports", "sqlite_sequence"}


class RouteCaller:
    def __init__(self, server: PopulatedServer) -> None:
        self.server = server
        self.resources: Resources = server.add_resources(server.fleet.user_id)
        self._callers = Callers(server, self.resources)

    @property
    def admin_headers(self) -> Headers:
        return self._callers.headers["admin key"]

    def headers(self, route: Route) -> Headers:
        match route.access:
            case Access.device:
                return self._callers.headers["device"]
            case Access.collector | Access.older_collector:
                return self._callers.headers["collector"]
            case Access.client | Access.subscriber | Access.ssf_read | Access.ssf_manage:
                return {"authorization": f"Bearer {self.resources.events.token_for(route)}"}
            case Access.open | Access.own_read:
                return self._callers.headers["owner"]
            case Access.approve_in_person | Access.jobs_approve | Access.manage_people:
                return self._callers.headers["admin"]
        return self._callers.headers["admin key"]

    def body(self, route: Route, place: int = 0) -> dict[str, Any]:
        if (route.method, route.path) in HANDLER_DECODED_BODIES:
            return HANDLER_DECODED_BODIES[route.method, route.path][place](self.resources.edge)
        return BODIES[route.method, route.path][place](self.server, self.resources)

    def send(self, route: Route, content: bytes, headers: Headers = JSON) -> httpx.Response:
        path = fill_path(route, self.resources)
        sent = {**self.headers(route), **headers}
        return self.server.client.request(route.method, path, headers=sent, content=content)

    def request(self, route: Route, path: str) -> httpx.Response:
        body = valid_body(self.server, route, self.resources)
        content = b"" if body is None else json.dumps(body).encode()
        sent = {**self.headers(route), **JSON}
        return self.server.client.request(route.method, path, headers=sent, content=content)

    def add_new_resources(self, route: Route) -> None:
        """Add new resources: a command can be acknowledged, approved or cancelled only once."""
        if is_edge(route) or is_job(route):
            self.resources = self.resources._replace(edge=self.server.add_edge_resources())
            self._callers.headers["collector"] = {"authorization": f"Bearer {self.resources.edge.token}"}
        if is_event(route) or is_ssf(route):
            self.resources = self.resources._replace(events=self.server.add_event_resources())

    def database_content(self, route: Route | None = None) -> dict[str, Any]:
        """The content of all tables, without those that record a refused ACK or a failed sign-in on purpose."""
        path = "" if route is None else route.path
        recorded = TRAIL if path.endswith(("/ack", "/result")) else SIGN_IN_RECORDS if path in SIGN_IN_PATHS else ()
        return {name: rows for name, rows in self.server.dump().items() if name not in recorded}


def check_error(response: httpx.Response, status: int, *named: str) -> None:
    """Check that the response is an error in the format of its protocol, and that it names the field."""
    assert response.status_code == status, f"{named}: {response.text[:300]}"
    assert response.headers["content-type"] in ("application/json", "application/json; charset=utf-8")
    if response.request.url.path.startswith(("/api/edge/", "/api/collector/")):
        _check_edge_error(response, named)
        return
    if "err" in response.json():
        _check_signals_error(response, named)
        return
    if "Errors" in response.json():
        _check_event_error(response, named)
        return
    error = response.json()["error"]
    assert isinstance(error["code"], int)
    if status == 400:
        assert error["code"] == 5000
    if named:
        field = error["what"].partition(":")[0]
        assert field.startswith(named), error["what"]


def _check_signals_error(response: httpx.Response, named: tuple[str, ...]) -> None:
    error = response.json()
    assert set(error) == {"err", "description"}
    if response.status_code == 400:
        assert error["err"] == "invalid_request"
        assert ": expected " in error["description"]
    if named:
        assert error["description"].startswith(named), error


def _check_event_error(response: httpx.Response, named: tuple[str, ...]) -> None:
    error = response.json()
    [item] = error["Errors"]
    assert error["Code"].startswith(f"{response.status_code} ")
    assert item["ErrorCode"].startswith("UK.OBIE.") or re.fullmatch("U[0-9]{3}", item["ErrorCode"])
    if response.status_code == 400:
        assert item["Message"].startswith(f"{item['Path']}: expected ")
    if named:
        assert item["Path"].startswith(named), error


def _check_edge_error(response: httpx.Response, named: tuple[str, ...]) -> None:
    error = response.json()
    assert error["error"].isupper()
    assert error["message"]
    if response.status_code == 400:
        assert error["error"] == "INVALID_REQUEST"
        assert error["message"].startswith(f"{error['field']}: expected ")
    if named:
        assert error["field"].startswith(named), error
