"""A valid body for each route of event polling that takes one."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from tests.events.client_keys import jwks
from tests.server.event_resources import EventResources

EventBody = Callable[[EventResources], dict[str, Any]]

_BASES = ("", "/open-banking/v4.0", "/open-banking/v3.1")


def _poll(resources: EventResources) -> dict[str, Any]:
    return {
        "maxEvents": 1,
        "returnImmediately": True,
        "ack": [resources.jti],
        "setErrs": {"unknown": {"err": "jwtIss", "description": "Issuer is invalid"}},
    }


def _client_by_key(_resources: EventResources) -> dict[str, Any]:
    return {
        "client_id": str(uuid4()),
        "name": "a bank app",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": jwks("ec-1"),
        "set_signing_alg": "ES256",
        "scope": "eventpolling ssf.read",
    }


def _client_by_certificate(_resources: EventResources) -> dict[str, Any]:
    method = {"token_endpoint_auth_method": "tls_client_auth", "tls_client_auth_subject_dn": "CN=a,O=b"}
    return {"client_id": str(uuid4()), "name": "a bank app", **method}


def _publish(resources: EventResources) -> dict[str, Any]:
    return {
        "client_id": resources.client_id,
        "all_subscribers": False,
        "sub": "https://bank.example/accounts/1",
        "sub_id": {"format": "opaque", "id": "1"},
        "events": {"urn:example:account-closed": {"reason": "moved"}},
        "txn": "t-1",
        "toe": 1_700_000_000,
    }


def _subscription(_resources: EventResources) -> dict[str, Any]:
    return {"Data": {"Version": "4.0", "EventTypes": ["urn:uk:org:openbanking:events:resource-update"]}}


def _stream(_resources: EventResources) -> dict[str, Any]:
    return {"delivery": {"method": "urn:ietf:rfc:8936"}, "events_requested": ["urn:example:a"], "description": "mine"}


def _stream_change(resources: EventResources) -> dict[str, Any]:
    return {"stream_id": resources.stream_id, **_stream(resources)}


def _status(resources: EventResources) -> dict[str, Any]:
    return {"stream_id": resources.stream_id, "status": "enabled", "reason": "because"}


def _status_by_operator(_resources: EventResources) -> dict[str, Any]:
    return {"status": "paused", "reason": "because"}


def _new_subject(resources: EventResources) -> dict[str, Any]:
    return {**_subject(resources), "verified": True}


def _subject(resources: EventResources) -> dict[str, Any]:
    return {"stream_id": resources.stream_id, "subject": {"format": "opaque", "id": "a"}}


def _verification(resources: EventResources) -> dict[str, Any]:
    return {"stream_id": resources.stream_id, "state": "abc"}


EVENT_BODIES: dict[tuple[str, str], list[EventBody]] = {
    **{("POST", f"{base}/events"): [_poll] for base in _BASES},
    ("POST", "/admin/events"): [_publish],
    ("POST", "/admin/events/bulk"): [
        lambda resources: {"action": "release", "filter": {"client_id": resources.client_id}}
    ],
    ("POST", "/admin/events/keys/rotate"): [lambda _: {"alg": "EdDSA"}],
    ("POST", "/admin/clients"): [_client_by_key, _client_by_certificate],
    ("POST", "/admin/clients/{client_id}/rotate"): [lambda _: {"jwks": None, "tls_client_auth_subject_dn": None}],
    **{("POST", f"{base}/event-subscriptions"): [_subscription] for base in _BASES},
    **{("PUT", f"{base}/event-subscriptions/{{event_subscription_id}}"): [_subscription] for base in _BASES},
    ("POST", "/ssf/streams"): [_stream],
    ("PATCH", "/ssf/streams"): [_stream_change],
    ("PUT", "/ssf/streams"): [_stream_change],
    ("POST", "/ssf/streams/{stream_id}/poll"): [_poll],
    ("POST", "/ssf/status"): [_status],
    ("POST", "/ssf/subjects:add"): [_new_subject],
    ("POST", "/ssf/subjects:remove"): [_subject],
    ("POST", "/ssf/verify"): [_verification],
    ("POST", "/admin/streams/{stream_id}/status"): [_status_by_operator],
}
