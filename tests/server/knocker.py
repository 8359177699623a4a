"""The right caller for every route, with wrong requests; and what every refusal looks like, whichever protocol's."""

import json
from typing import Any

import httpx

from restante.web.routes import Access, Route
from tests.server.edge_things import is_edge
from tests.server.event_things import is_event, is_signals
from tests.server.good_bodies import BODIES, good_body
from tests.server.good_edge_bodies import READ_BY_THEMSELVES
from tests.server.inhabited import Callers, Headers, Inhabited, Things, fill_path

JSON = {"content-type": "application/json"}
# Where refused ACKs are told of; beside it, ids that were passed over.
_TRAIL = {"command_audit", "audit_checkpoints", "sqlite_sequence"}


class Knocker:
    def __init__(self, inhabited: Inhabited) -> None:
        self.inhabited = inhabited
        self.things: Things = inhabited.add_things(inhabited.world.user_id)
        self._callers = Callers(inhabited, self.things)

    def headers(self, route: Route) -> Headers:
        match route.access:
            case Access.device:
                return self._callers.headers["device"]
            case Access.collector:
                return self._callers.headers["collector"]
            case Access.client | Access.signals_read | Access.signals_manage:
                return {"authorization": f"Bearer {self.things.events.token_for(route)}"}
            case Access.open:
                return self._callers.headers["owner"]
        return self._callers.headers["admin key"]

    def body(self, route: Route, place: int = 0) -> dict[str, Any]:
        if (route.method, route.path) in READ_BY_THEMSELVES:
            return READ_BY_THEMSELVES[route.method, route.path][place](self.things.edge)
        return BODIES[route.method, route.path][place](self.inhabited, self.things)

    def send(self, route: Route, content: bytes, headers: Headers = JSON) -> httpx.Response:
        path = fill_path(route, self.things)
        sent = {**self.headers(route), **headers}
        return self.inhabited.client.request(route.method, path, headers=sent, content=content)

    def ask(self, route: Route, path: str) -> httpx.Response:
        body = good_body(self.inhabited, route, self.things)
        content = b"" if body is None else json.dumps(body).encode()
        sent = {**self.headers(route), **JSON}
        return self.inhabited.client.request(route.method, path, headers=sent, content=content)

    def renew(self, route: Route) -> None:
        """A site of its own for what is next: a command can be acknowledged, approved or cancelled once."""
        if is_edge(route):
            self.things = self.things._replace(edge=self.inhabited.add_edge_things())
            self._callers.headers["collector"] = {"authorization": f"Bearer {self.things.edge.token}"}
        if is_event(route) or is_signals(route):
            self.things = self.things._replace(events=self.inhabited.add_event_things())

    def things_there(self, route: Route | None = None) -> dict[str, Any]:
        """Everything the database holds; where ACKs are refused, but for the trail that tells of it."""
        there = self.inhabited.dump()
        if route is not None and route.path.endswith("/ack"):
            return {name: rows for name, rows in there.items() if name not in _TRAIL}
        return there


def check_refusal(answer: httpx.Response, status: int, *named: str) -> None:
    """The answer is an error in the protocol's shape, and says which field it is about."""
    assert answer.status_code == status, f"{named}: {answer.text[:300]}"
    assert answer.headers["content-type"] == "application/json"
    if answer.request.url.path.startswith("/api/edge/"):
        _check_edge_refusal(answer, named)
        return
    if "err" in answer.json():
        _check_signals_refusal(answer, named)
        return
    if "Errors" in answer.json():
        _check_event_refusal(answer, named)
        return
    error = answer.json()["error"]
    assert isinstance(error["code"], int)
    if status == 400:
        assert error["code"] == 5000
    if named:
        field = error["what"].partition(":")[0]
        assert field.startswith(named), error["what"]


def _check_signals_refusal(answer: httpx.Response, named: tuple[str, ...]) -> None:
    refusal = answer.json()
    assert set(refusal) == {"err", "description"}
    if answer.status_code == 400:
        assert refusal["err"] == "invalid_request"
        assert ": expected " in refusal["description"]
    if named:
        assert refusal["description"].startswith(named), refusal


def _check_event_refusal(answer: httpx.Response, named: tuple[str, ...]) -> None:
    refusal = answer.json()
    [item] = refusal["Errors"]
    assert refusal["Code"].startswith(f"{answer.status_code} ")
    assert item["ErrorCode"].startswith("UK.OBIE.")
    if answer.status_code == 400:
        assert item["Message"].startswith(f"{item['Path']}: expected ")
    if named:
        assert item["Path"].startswith(named), refusal


def _check_edge_refusal(answer: httpx.Response, named: tuple[str, ...]) -> None:
    refusal = answer.json()
    assert refusal["error"].isupper()
    assert refusal["message"]
    if answer.status_code == 400:
        assert refusal["error"] == "INVALID_REQUEST"
        assert refusal["message"].startswith(f"{refusal['field']}: expected ")
    if named:
        assert refusal["field"].startswith(named), refusal
