"""A good body for each route that takes one, so that a test can make it wrong in one place."""

import base64
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives import serialization
from nacl.public import PrivateKey

from restante.identity import device_codes, refresh_tokens, registration_codes
from restante.identity.refresh_key import RefreshKey
from restante.updates.notifications import SCHEMA
from restante.updates.x509 import Subject, as_pem, at_moment, make_authority, new_signing_key
from restante.web.routes import Route
from tests.identity.population import PASSWORD
from tests.server.good_edge_bodies import EDGE_BODIES, READ_BY_THEMSELVES, EdgeBody
from tests.server.good_event_bodies import EVENT_BODIES, EventBody
from tests.server.inhabited import Inhabited, Things

Body = Callable[[Inhabited, Things], dict[str, Any]]


def _registration(_inhabited: Inhabited, _things: Things) -> dict[str, Any]:
    key = base64.b64encode(bytes(PrivateKey.generate().public_key)).decode()
    return {
        "device_public_id": str(uuid4()),
        "dev_pk": key,
        "platform": "linux",
        "model": "m1",
        "app_version": "1.2.3",
        "name": "kiosk",
        "ip": "192.0.2.1",
        "user_agent": "agent/1",
    }


def _registration_by_code(inhabited: Inhabited, things: Things) -> dict[str, Any]:
    code = inhabited.node.database.write_now(registration_codes.create, things.user_id)
    return {**_registration(inhabited, things), "user_id": things.user_id, "registration_code": code}


def _refresh(inhabited: Inhabited, things: Things) -> dict[str, Any]:
    node = inhabited.node
    key = RefreshKey(node.master_key)
    token = node.database.write_now(refresh_tokens.start_family, key, things.user_id, things.device_id, 3600)
    return {"refresh_token": token}


def _made_elsewhere(inhabited: Inhabited) -> tuple[str, str]:
    """An authority's certificate and key, as PEM. It is a certificate like any other, too."""
    now = at_moment(inhabited.node.database.read_now(lambda conn: conn.now_ms))
    keyed = make_authority(Subject("elsewhere.example"), new_signing_key("P-256", 0), now, 30, None)
    key = serialization.load_der_private_key(keyed.private_key_der, None)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return as_pem(keyed.certificate), pem.decode()


def _authority_import(inhabited: Inhabited, _things: Things) -> dict[str, Any]:
    certificate, key = _made_elsewhere(inhabited)
    return {"name": "Elsewhere CA", "ca_certificate_pem": certificate, "private_key_pem": key}


def _certificate_import(inhabited: Inhabited, _things: Things) -> dict[str, Any]:
    certificate, key = _made_elsewhere(inhabited)
    return {"certificate_pem": certificate, "private_key_pem": key, "domain_name": "elsewhere.example"}


def _device_poll(inhabited: Inhabited, _things: Things) -> dict[str, Any]:
    started = inhabited.node.database.write_now(
        lambda conn: device_codes.start(conn, scopes=[], interval_seconds=5, expires_in=900, address="", user_agent="")
    )
    return {"action": "device_poll", "device_code": started.device_code, "device_id": None}


def _always(**body: Any) -> Body:
    return lambda _inhabited, _things: body


def _of_edge(body: EdgeBody) -> Body:
    return lambda _inhabited, things: body(things.edge)


def _of_events(body: EventBody) -> Body:
    return lambda _inhabited, things: body(things.events)


_USER = "/apiv1/users/{user_id}"
_DEVICE = _USER + "/devices/{device_id}"
_INSTALL = {"id": "a", "type": "copy", "from": ["/a"], "to": ["/b"]}

# For each route with a body, good ones: the first is admitted by the right caller and changes something.
BODIES: dict[tuple[str, str], list[Body]] = {
    ("POST", "/auth/device"): [
        _always(action="device_start", scopes=["a"], interval=5, expires_in=900),
        _device_poll,
        _always(action="device_verify", user_code="ABCD-EFGH", approve=True),
    ],
    ("POST", "/auth/refresh"): [_refresh],
    ("POST", "/auth/general"): [
        _always(action="logout"),
        _always(action="login", email="owner@example.com", password=PASSWORD),
    ],
    ("POST", "/apiv1/device/registration"): [_registration_by_code],
    ("POST", _USER + "/devices"): [_registration],
    ("POST", "/apiv1/devices/self/notify"): [
        _always(schema=SCHEMA, events=[{"type": "started", "agent_version": "1.0"}])
    ],
    ("PUT", _DEVICE + "/install-config"): [
        _always(installs=[_INSTALL], change_note="note", after_update_script="true")
    ],
    ("POST", _DEVICE + "/install-config/restore"): [_always(version=1, change_note="note")],
    ("POST", _USER + "/certificates"): [
        lambda _, things: {
            "domain_name": "a.example.com",
            "sans": ["b.example.com"],
            "acct_id": things.acct_id,
            "action": "create",
        }
    ],
    ("POST", _USER + "/certificates/import"): [_certificate_import],
    ("POST", _USER + "/certificates/{certificate_id}/issues"): [_always(validity_seconds=3600)],
    ("POST", _DEVICE + "/certificates"): [lambda _, things: {"cert_id": things.free_certificate_id}],
    ("POST", _USER + "/cas"): [
        _always(
            name="New CA",
            algorithm="ECDSA",
            key_size=256,
            curve_name="P-256",
            common_name="New CA",
            organization="O",
            organizational_unit="OU",
            country="DE",
            state="S",
            locality="L",
            valid_days=30,
            max_path_length=0,
        )
    ],
    ("POST", _USER + "/cas/import"): [_authority_import],
    ("POST", _DEVICE + "/cas"): [lambda _, things: {"ca_id": things.free_ca_id}],
    ("POST", _USER + "/acme-accounts"): [
        lambda _, things: {"name": "n", "email": "a@example.com", "provider": "self", "ca_id": things.ca_id}
    ],
    ("POST", _DEVICE + "/signals"): [_always(type="app.hello", ref={"a": 1})],
    ("PUT", "/apiv1/rollout"): [_always(for_seconds=60, interval_seconds=15)],
    **{route: [_of_edge(body) for body in bodies] for route, bodies in EDGE_BODIES.items()},
    **{route: [_of_events(body) for body in bodies] for route, bodies in EVENT_BODIES.items()},
}


def good_body(inhabited: Inhabited, route: Route, things: Things) -> dict[str, Any] | None:
    bodies = BODIES.get((route.method, route.path))
    if bodies:
        return bodies[0](inhabited, things)
    read_by_itself = READ_BY_THEMSELVES.get((route.method, route.path))
    return read_by_itself[0](things.edge) if read_by_itself else None
