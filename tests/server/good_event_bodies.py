"""A good body for each route of event polling that takes one, for tests that make it wrong in one place."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from tests.events.keys import jwks
from tests.server.event_things import EventThings

EventBody = Callable[[EventThings], dict[str, Any]]

_BASES = ("", "/open-banking/v4.0")


def _poll(things: EventThings) -> dict[str, Any]:
    return {
        "maxEvents": 1,
        "returnImmediately": True,
        "ack": [things.jti],
        "setErrs": {"unknown": {"err": "jwtIss", "description": "Issuer is invalid"}},
    }


def _client_by_key(_things: EventThings) -> dict[str, Any]:
    return {
        "client_id": str(uuid4()),
        "name": "a bank app",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": jwks("ec-1"),
        "set_signing_alg": "ES256",
        "scope": "eventpolling ssf.read",
    }


def _client_by_certificate(_things: EventThings) -> dict[str, Any]:
    method = {"token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_subject_dn": "CN=a,O=b"}
    return {"client_id": str(uuid4()), "name": "a bank app", **method}


def _publish(things: EventThings) -> dict[str, Any]:
    return {
        "client_id": things.client_id,
        "all_subscribers": False,
        "sub": "https://bank.example/accounts/1",
        "sub_id": {"format": "opaque", "id": "1"},
        "events": {"urn:example:account-closed": {"reason": "moved"}},
        "txn": "t-1",
        "toe": 1_700_000_000,
    }


EVENT_BODIES: dict[tuple[str, str], list[EventBody]] = {
    **{("POST", f"{base}/events"): [_poll] for base in _BASES},
    ("POST", "/admin/events"): [_publish],
    ("POST", "/admin/events/keys/rotate"): [lambda _: {"alg": "EdDSA"}],
    ("POST", "/admin/clients"): [_client_by_key, _client_by_certificate],
    ("POST", "/admin/clients/{client_id}/rotate"): [lambda _: {"jwks": None, "tls_client_auth_subject_dn": None}],
}
