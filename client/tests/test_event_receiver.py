"""A receiver of events against a server that plays a script, in both flavours."""

from __future__ import annotations

import asyncio
import base64
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from event_script import EC_JWK, JWKS, LOGIN, PEMS, SECRET, TOKEN, event, polls, reply, sets, text
from flavours import InLoop, QuickAsyncRuntime, QuickBlockingRuntime
from scripted_server import Lost, Reply, ScriptedServer

from restante_client import (
    BlockingEventReceiver,
    Event,
    EventReceiver,
    PrivateKeyJwt,
    ReceiverOptions,
    TlsCertificate,
)
from restante_client.errors import Unauthorized, Unreachable, VerificationFailed
from restante_client.events.client import DEFAULTS
from restante_client.events.jws import parse, read_jwks, sign, verify

MakeReceiver = Callable[..., Any]


@pytest.fixture(params=["asyncio", "blocking"])
def make(
    request: pytest.FixtureRequest, server: ScriptedServer, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> Iterator[MakeReceiver]:
    made: list[Any] = []

    def make(credentials: Any = SECRET, options: ReceiverOptions = DEFAULTS) -> Any:
        runtime: Any
        if request.param == "blocking":
            runtime = QuickBlockingRuntime()
            receiver: Any = BlockingEventReceiver(server.url, credentials, tmp_path / "s", options, runtime=runtime)
        else:
            runtime = QuickAsyncRuntime()
            receiver = InLoop(loop, EventReceiver(server.url, credentials, tmp_path / "s", options, runtime=runtime))
        receiver.pauses = runtime.pauses
        made.append(receiver)
        return receiver

    yield make
    for receiver in made:
        receiver.close()


class TestPoll:
    def test_event_is_stored_and_acknowledged_with_the_next_poll(
        self, make: MakeReceiver, server: ScriptedServer
    ) -> None:
        receiver = make()
        server.add(*LOGIN, sets(event("a"), event("b"), more=True), reply(JWKS), sets())
        assert receiver.poll(is_immediate=True) is True
        assert receiver.poll(is_immediate=True) is False
        first, second = polls(server)
        assert first == {"maxEvents": 100, "returnImmediately": True}
        assert second["ack"] == ["a", "b"]
        assert server.requests[2].headers["Authorization"] == "Bearer secret-access"

    def test_event_is_on_disk_before_it_is_acknowledged(self, make: MakeReceiver, server: ScriptedServer) -> None:
        """A receiver that ends after the poll acknowledges in its next life, from the disk."""
        server.add(*LOGIN, sets(event("a")), reply(JWKS))
        make().poll()
        server.add(*LOGIN, sets())
        again = make()
        again.poll()
        assert polls(server)[1]["ack"] == ["a"]
        assert again.store.next_to_handle().jti == "a"

    def test_lost_acknowledgement_is_repeated_without_a_second_event(
        self, make: MakeReceiver, server: ScriptedServer
    ) -> None:
        receiver = make()
        token = event("a")
        server.add(*LOGIN, sets(token), reply(JWKS), Lost(), sets(token), sets())
        receiver.poll()
        with pytest.raises(Unreachable):
            receiver.poll()
        receiver.poll()
        receiver.poll()
        assert [body.get("ack") for body in polls(server)] == [None, ["a"], ["a"], ["a"]]
        found: list[str] = []
        receiver.handle_stored(lambda event: found.append(event.jti))
        assert found == ["a"]

    @pytest.mark.parametrize(
        ("token", "err"),
        [
            ("nonsense", "invalid_request"),
            ("a.b.c", "invalid_request"),
            (event("bad")[:-6] + "AAAAAA", "authentication_failed"),
            (event("bad", aud="other"), "invalid_audience"),
            (event("bad", iss="https://evil.example"), "invalid_issuer"),
            (event("other"), "authentication_failed"),
            (event("bad", header={"kid": "unknown"}), "invalid_key"),
            (event("bad", header={"crit": ["x"], "x": 1}), "authentication_failed"),
            (event("bad", header={"crit": []}), "authentication_failed"),
            (event("bad", header={"typ": "at+jwt"}), "authentication_failed"),
            (event("bad", "r", "PS256", header={"kid": "e"}), "authentication_failed"),
        ],
        ids=[
            "no parts",
            "no JSON",
            "wrong signature",
            "other audience",
            "other issuer",
            "other jti",
            "unknown key",
            "unknown critical header",
            "empty critical header",
            "other type",
            "key of another type",
        ],
    )
    def test_bad_token_is_reported_and_not_stored(
        self, make: MakeReceiver, server: ScriptedServer, token: str, err: str
    ) -> None:
        receiver = make(options=ReceiverOptions(issuer="https://bank.example"))
        good = event("good")
        body = reply({"sets": {"bad": token, "good": good}, "moreAvailable": False})
        server.add(*LOGIN, body)
        server.add(reply(JWKS), sets(), sets())
        receiver.poll()
        receiver.poll()
        acknowledged = polls(server)[1]
        assert acknowledged["ack"] == ["good"]
        assert acknowledged["setErrs"]["bad"]["err"] == err
        assert 1 <= len(acknowledged["setErrs"]["bad"]["description"]) <= 256
        receiver.poll()
        assert "setErrs" not in polls(server)[2]

    def test_new_key_is_read_once_it_is_needed(self, make: MakeReceiver, server: ScriptedServer) -> None:
        receiver = make()
        server.add(*LOGIN, sets(event("a")), reply({"keys": [EC_JWK]}), sets(event("b", "o", "EdDSA")), reply(JWKS))
        receiver.poll()
        receiver.poll()
        assert receiver.store.to_acknowledge(10) == ["b"]

    def test_refused_token_is_renewed_once(self, make: MakeReceiver, server: ScriptedServer) -> None:
        receiver = make()
        server.add(*LOGIN, Reply(401), TOKEN, sets(), Reply(401), TOKEN, Reply(401))
        receiver.poll()
        with pytest.raises(Unauthorized):
            receiver.poll()

    @pytest.mark.parametrize("body", [{}, {"sets": []}, {"sets": {"a": 1}}])
    def test_body_of_another_shape_is_no_crash(self, make: MakeReceiver, server: ScriptedServer, body: Any) -> None:
        server.add(*LOGIN, reply(body))
        with pytest.raises(Unreachable):
            make().poll()


class TestRun:
    def test_run_handles_in_order_and_acknowledges_before_it_ends(
        self, make: MakeReceiver, server: ScriptedServer
    ) -> None:
        receiver = make()
        server.add(*LOGIN, sets(event("a"), event("b"), more=True), reply(JWKS), sets(event("c")), sets())
        found: list[str] = []

        def handler(event: Event) -> None:
            found.append(event.jti)
            assert event.events == {"urn:x": {}}
            if len(found) == 3:
                receiver.stop()

        receiver.run(handler)
        assert found == ["a", "b", "c"]
        assert polls(server)[-1] == {"maxEvents": 0, "ack": ["c"]}

    def test_failed_handler_gets_the_event_again(self, make: MakeReceiver, server: ScriptedServer) -> None:
        server.add(*LOGIN, sets(event("a")), reply(JWKS))

        def fail(event: Event) -> None:
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            make().run(fail)
        found: list[str] = []
        make().handle_stored(lambda event: found.append(event.jti))
        assert found == ["a"]

    def test_failures_are_repeated_with_back_off(self, make: MakeReceiver, server: ScriptedServer) -> None:
        receiver = make()
        server.add(Lost(), *LOGIN, Reply(503, b"", {"Retry-After": "9"}), sets(event("a")), reply(JWKS), sets())
        receiver.run(lambda event: receiver.stop())
        assert receiver.pauses[0] <= 1
        assert 9 <= receiver.pauses[1] <= 10


class TestCredentials:
    def form(self, server: ScriptedServer) -> dict[str, str]:
        return dict(urllib.parse.parse_qsl(server.requests[1].body.decode()))

    def test_client_secret(self, make: MakeReceiver, server: ScriptedServer) -> None:
        server.add(*LOGIN, sets())
        make().poll()
        assert self.form(server) == {"grant_type": "client_credentials", "scope": "eventpolling"}
        sent = server.requests[1].headers["Authorization"].split()[1]
        assert base64.b64decode(sent) == b"shop:secret%20value"

    @pytest.mark.parametrize(("kid", "alg"), [("r", "PS256"), ("r", "RS256"), ("e", "ES256"), ("o", "EdDSA")])
    def test_private_key(self, make: MakeReceiver, server: ScriptedServer, kid: str, alg: str) -> None:
        server.add(*LOGIN, sets())
        make(PrivateKeyJwt("shop", PEMS[kid], alg, kid)).poll()
        assertion = parse(self.form(server)["client_assertion"])
        verify(assertion, read_jwks(JWKS))
        claims = assertion.claims
        assert (claims["iss"], claims["sub"], claims["aud"]) == ("shop", "shop", "https://bank.example")
        assert claims["exp"] - claims["iat"] == 300
        assert claims["jti"]

    def test_certificate(self, make: MakeReceiver, server: ScriptedServer) -> None:
        server.add(*LOGIN, sets())
        make(TlsCertificate("shop")).poll()
        assert self.form(server)["client_id"] == "shop"

    def test_no_secret_in_repr(self, make: MakeReceiver) -> None:
        assert "secret" not in repr(SECRET)
        assert "PRIVATE" not in repr(PrivateKeyJwt("shop", PEMS["r"]))
        assert "secret" not in repr(make())


@pytest.mark.parametrize(("kid", "alg"), [("r", "PS256"), ("r", "RS256"), ("e", "ES256"), ("o", "EdDSA")])
def test_each_algorithm_verifies_and_fits_its_key_only(kid: str, alg: str) -> None:
    keys = read_jwks(JWKS)
    verify(parse(event("a", kid, alg)), keys)
    others = {"r": "e", "e": "o", "o": "r"}
    with pytest.raises(VerificationFailed):
        verify(parse(event("a", kid, alg, header={"kid": others[kid]})), keys)
    with pytest.raises(ValueError, match="does not fit"):
        sign({"alg": alg}, {}, PEMS[others[kid]])


def test_short_rsa_key_is_left_out() -> None:
    short = rsa.generate_private_key(65537, 1024).public_key().public_numbers()
    assert read_jwks({"keys": [{"kty": "RSA", "kid": "s", "n": text(short.n, 128), "e": "AQAB"}]}) == {}


@pytest.mark.parametrize("alg", ["none", "HS256", None])
def test_other_algorithms_are_refused(alg: Any) -> None:
    token = parse(event("a"))
    with pytest.raises(VerificationFailed, match="algorithm"):
        verify(type(token)({**token.header, "alg": alg}, token.claims, token.signed, token.signature), read_jwks(JWKS))
