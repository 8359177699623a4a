"""The conformance cases of event subscriptions and Shared Signals streams. Each case has new clients without any."""

import re
from typing import Any, Literal

import msgspec

from restante.database.connection import Connection
from restante.database.queries import Query
from restante.events.signing import event_keys
from tests.conformance.cases import Expected, MultiStepCase, Step, body_of, check_response, filled, value_at
from tests.conformance.open_banking import check_open_banking
from tests.conformance.runner import ProtocolFixture, Request
from tests.conftest import ManualClock
from tests.events import inbox_fixture
from tests.events.client_app import resolve
from tests.events.client_keys import jwks
from tests.events.message_signing import CLAIMS, header_of, sign, verified_header
from tests.server.live_server import LiveServer, RawResponse

SCOPES = {
    "client": "eventpolling ssf.read ssf.manage",
    "other": "eventpolling ssf.read ssf.manage",
    "reader": "ssf.read",
    "accounts": "accounts",
    "payments": "payments",
    "funds": "fundsconfirmations",
}
_SET_JWKS = Query("set_jwks", "UPDATE event_clients SET jwks = :jwks WHERE id = :id")
_RANDOM = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")


class MessageSignature(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The `x-jws-signature` of a request: members of its header that differ, and what is signed instead of the body."""

    unencoded: bool = False
    key: str = "rsa-1"
    changed: dict[str, Any] = msgspec.field(default_factory=dict)
    lacks: list[str] = msgspec.field(default_factory=list)
    body: str | None = None


class SharedSignalsStep(Step, forbid_unknown_fields=True, kw_only=True):
    request: str
    by: Literal["client", "other", "reader", "accounts", "payments", "funds", "anonymous"] = "client"
    json: Any = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    # Names of values that later steps use, with their positions in the body.
    save: dict[str, str] = msgspec.field(default_factory=dict)
    signed: MessageSignature | None = None
    expected: Expected = msgspec.field(default_factory=Expected)


SharedSignalsCase = MultiStepCase[SharedSignalsStep]


class SharedSignalsFixture(ProtocolFixture[SharedSignalsCase, SharedSignalsStep]):
    def __init__(self, server: LiveServer, clock: ManualClock) -> None:
        super().__init__(server, clock)
        # Callback addresses are resolved when they are registered; do not use real DNS.
        self.node.push.pusher.client.resolve = resolve
        self._base = self.node.settings.public_url
        self._case_count = 0

    def set_up(self, case: SharedSignalsCase) -> None:
        self.names["base"] = self._base
        self._case_count += 1
        self._tokens: dict[str, str] = self.write(_add_callers, self._case_count)

    def request(self, step: SharedSignalsStep) -> Request:
        method, _, target = str(filled(step.request, self.names)).partition(" ")
        headers = list(step.headers.items())
        if step.by != "anonymous":
            headers.append(("Authorization", f"Bearer {self._tokens[step.by]}"))
        if step.json is None:
            return Request(method, target, headers)
        headers.append(("Content-Type", "application/json"))
        body = msgspec.json.encode(filled(step.json, self.names))
        if step.signed is not None:
            headers.append(("x-jws-signature", self._signature(step.signed, body)))
        return Request(method, target, headers, body)

    def _signature(self, signed: MessageSignature, body: bytes) -> str:
        made = header_of(signed.key, is_unencoded=signed.unencoded, now=self.clock.now_ms / 1000)
        header = {name: value for name, value in {**made, **signed.changed}.items() if name not in signed.lacks}
        return sign(body if signed.body is None else signed.body.encode(), header, signed.key)

    def _check_signature(self, step: SharedSignalsStep, response: RawResponse) -> None:
        """Every success with a body is signed with a published key, in the form of its request or version."""
        value = response.header(b"x-jws-signature")
        if response.status >= 400 or not response.body:
            assert value is None
            return
        assert value is not None
        jwks = {"keys": self.node.database.read_now(event_keys.published_jwks)}
        header = verified_header(value.decode(), response.body, jwks)
        is_unencoded = "/v3.1/" in step.request if step.signed is None else step.signed.unencoded
        assert set(header["crit"]) == {*CLAIMS, *(["b64"] if is_unencoded else [])}
        assert header.get("b64", True) is not is_unencoded
        assert header["http://openbanking.org.uk/iss"] == self._base
        assert header["http://openbanking.org.uk/tan"] == "openbanking.org.uk"

    def parked_count(self) -> int:
        return self.node.shared_signals.poll.parked_count

    def normalized(self, response: RawResponse) -> RawResponse:
        without_signature = [each for each in response.without_date().headers if each[0] != b"x-jws-signature"]
        headers = [(name, _RANDOM.sub(b"<random>", value)) for name, value in without_signature]
        return response._replace(headers=headers, body=_RANDOM.sub(b"<random>", response.body))

    def check(self, step: SharedSignalsStep, response: RawResponse, before: Any) -> None:
        check_response(step.expected, response, self.names)
        if "/event-subscriptions" in step.request:
            check_open_banking(response, body_of(response))
            self._check_signature(step, response)
        self.names |= {name: value_at(body_of(response), position) for name, position in step.save.items()}


def _add_callers(conn: Connection, number: int) -> dict[str, str]:
    """Add the clients; `client` has registered keys for its message signatures."""
    added = {name: inbox_fixture.add_client(conn, f"{name}-{number}", scope) for name, scope in SCOPES.items()}
    conn.run(_SET_JWKS, id=added["client"].id, jwks=msgspec.json.encode(jwks("rsa-1", "rsa-2", "ec-1")).decode())
    return {name: client.token for name, client in added.items()}
