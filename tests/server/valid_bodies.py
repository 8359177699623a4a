"""A valid body for each route that takes one, so that a test can make one part of it invalid."""

import base64
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives import serialization
from nacl.public import PrivateKey

from restante.identity.devices import device_codes, refresh_tokens, registration_codes
from restante.identity.devices.refresh_key import RefreshKey
from restante.updates.devices.notifications import SCHEMA
from restante.updates.pki.crypto.x509 import CertificateSubject, as_pem, make_authority, new_signing_key, utc_datetime
from restante.web.routes import Route
from tests.identity.people_and_devices import CODE_KEY, CODE_LIMITS, PASSWORD
from tests.server.populated_server import PopulatedServer, Resources
from tests.server.valid_edge_bodies import EDGE_BODIES, HANDLER_DECODED_BODIES, EdgeBody
from tests.server.valid_event_bodies import EVENT_BODIES, EventBody

Body = Callable[[PopulatedServer, Resources], dict[str, Any]]


def _registration(_server: PopulatedServer, _resources: Resources) -> dict[str, Any]:
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


def _registration_by_code(server: PopulatedServer, resources: Resources) -> dict[str, Any]:
    code = server.node.database.write_now(registration_codes.create, resources.user_id)
    return {
        **_registration(server, resources),
        "user_id": resources.user_id,
        "registration_code": code,
        "refresh_token": "rt_a",
    }


def _refresh(server: PopulatedServer, resources: Resources) -> dict[str, Any]:
    node = server.node
    key = RefreshKey(node.master_key)
    token = node.database.write_now(refresh_tokens.start_family, key, resources.user_id, resources.device_id, 3600)
    return {"refresh_token": token}


def _external_authority(server: PopulatedServer) -> tuple[str, str]:
    """Certificate and key of an authority in PEM. It also serves as an ordinary certificate."""
    now = utc_datetime(server.node.database.read_now(lambda conn: conn.now_ms))
    keyed = make_authority(CertificateSubject("elsewhere.example"), new_signing_key("P-256", 0), now, 30, None)
    key = serialization.load_der_private_key(keyed.private_key_der, None)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return as_pem(keyed.certificate), pem.decode()


def _authority_import(server: PopulatedServer, _resources: Resources) -> dict[str, Any]:
    certificate, key = _external_authority(server)
    return {"name": "Elsewhere CA", "ca_certificate_pem": certificate, "private_key_pem": key}


def _certificate_import(server: PopulatedServer, _resources: Resources) -> dict[str, Any]:
    certificate, key = _external_authority(server)
    return {"certificate_pem": certificate, "private_key_pem": key, "domain_name": "elsewhere.example"}


def _device_poll(server: PopulatedServer, _resources: Resources) -> dict[str, Any]:
    started = server.node.database.write_now(
        lambda conn: device_codes.start(
            conn, CODE_KEY, CODE_LIMITS, scopes=[], interval_seconds=5, expires_in=900, address="", user_agent=""
        )
    )
    return {"action": "device_poll", "device_code": started.device_code, "device_id": None}


def _fixed(**body: Any) -> Body:
    return lambda _server, _resources: body


def _edge_body(body: EdgeBody) -> Body:
    return lambda _server, resources: body(resources.edge)


def _event_body(body: EventBody) -> Body:
    return lambda _server, resources: body(resources.events)


_USER = "/apiv1/users/{user_id}"
_DEVICE = _USER + "/devices/{device_id}"
_SUBJECT = {"organization": "O", "organizational_unit": "OU", "country": "DE", "state": "S", "locality": "L"}
_INSTALL = {"id": "a", "type": "copy", "from": ["/a"], "to": ["/b"]}

# Valid bodies for each route. With the first one, a caller with access changes something.
BODIES: dict[tuple[str, str], list[Body]] = {
    ("POST", "/auth/device"): [
        _fixed(action="device_start", scopes=["a"], interval=5, expires_in=900),
        _device_poll,
        _fixed(action="device_verify", user_code="ABCD-EFGH", approve=True),
    ],
    ("POST", "/auth/refresh"): [_refresh],
    ("POST", "/auth/general"): [
        _fixed(action="logout"),
        _fixed(action="login", email="owner@example.com", password=PASSWORD),
    ],
    ("POST", "/auth/cli"): [_fixed(action="start"), _fixed(action="poll", device_code="x"), _fixed(action="end")],
    ("POST", "/apiv1/people"): [
        lambda _server, _resources: {
            "email": f"{uuid4()}@example.com",
            "password": PASSWORD,
            "grants": [{"role": "viewer", "scope": "all"}],
        },
        lambda _server, _resources: {"email": f"{uuid4()}@example.com", "grants": [{"role": "viewer", "scope": "all"}]},
    ],
    ("PUT", "/apiv1/people/{person_id}/password"): [_fixed(password=PASSWORD)],
    ("POST", "/apiv1/device/registration"): [_registration_by_code],
    ("POST", _USER + "/devices"): [_registration],
    ("POST", "/apiv1/devices/self/notify"): [
        _fixed(schema=SCHEMA, events=[{"type": "started", "agent_version": "1.0"}])
    ],
    ("PUT", _DEVICE + "/install-config"): [_fixed(installs=[_INSTALL], change_note="note", after_update_script="true")],
    ("POST", _DEVICE + "/install-config/restore"): [_fixed(version=1, change_note="note")],
    ("POST", _USER + "/certificates"): [
        lambda _, resources: {
            "domain_name": "a.example.com",
            "sans": ["b.example.com"],
            "acct_id": resources.acct_id,
            "action": "create",
            **_SUBJECT,
        }
    ],
    ("POST", _USER + "/certificates/import"): [_certificate_import],
    ("POST", _USER + "/certificates/{certificate_id}/issues"): [_fixed(validity_seconds=3600)],
    ("PATCH", _USER + "/certificates/{certificate_id}"): [_fixed(auto_renew=False)],
    ("POST", _DEVICE + "/certificates"): [lambda _, resources: {"cert_id": resources.free_certificate_id}],
    ("POST", _USER + "/cas"): [
        _fixed(
            name="New CA",
            algorithm="ECDSA",
            key_size=256,
            curve_name="P-256",
            common_name="New CA",
            **_SUBJECT,
            valid_days=30,
            max_path_length=0,
            key_usage="keyCertSign,cRLSign",
        )
    ],
    ("POST", _USER + "/cas/import"): [_authority_import],
    ("POST", _DEVICE + "/cas"): [lambda _, resources: {"ca_id": resources.free_ca_id}],
    ("POST", _USER + "/acme-accounts"): [
        lambda _, resources: {
            "name": "n",
            "email": "a@example.com",
            "provider": "self",
            "ca_id": resources.ca_id,
            "cert_valid_seconds": 3600,
            "leaf_key_algorithm": "ECDSA",
            "leaf_ec_curve": "prime256v1",
            "leaf_rsa_bits": None,
        }
    ],
    ("PUT", "/apiv1/people/{person_id}/grants"): [_fixed(grants=[{"role": "operator", "scope": "commands:1"}])],
    ("POST", "/apiv1/keys"): [
        _fixed(name="nightly", grants=[{"role": "operator", "scope": "all"}], expires_in_seconds=3600)
    ],
    ("PUT", "/apiv1/keys/{key_id}/grants"): [_fixed(grants=[{"role": "operator", "scope": "all"}])],
    ("POST", _USER + "/apikeys"): [
        _fixed(
            name="n",
            role="viewer",
            expires_in_seconds=3600,
            permissions=[{"obtype": "ForDeviceAuthenticate", "obid": "*", "actions": ["authenticate"]}],
        )
    ],
    ("POST", _DEVICE + "/signals"): [_fixed(type="app.hello", ref={"a": 1})],
    ("POST", "/apiv1/groups"): [
        lambda _, resources: {
            "name": f"group {uuid4()}",
            "user_id": resources.user_id,
            "filter": {"tag": "pilot", "overdue": True},
        }
    ],
    ("PUT", "/apiv1/groups/{group_id}"): [lambda *_: {"name": f"group {uuid4()}", "filter": {"status": "active"}}],
    ("POST", "/apiv1/devices/bulk"): [
        lambda _, resources: {
            "action": "send_signal",
            "filter": {"user_id": resources.user_id},
            "params": {"type": "app.hello", "ref": {}},
            "dry_run": False,
        }
    ],
    ("POST", "/apiv1/outbox/bulk"): [
        lambda _, resources: {"action": "retry", "filter": {"device_id": resources.device_id}, "rate_per_second": 5}
    ],
    ("POST", "/apiv1/rollouts"): [
        lambda _, resources: {
            "name": "restart",
            "target": "miners",
            "action": "send",
            "filter": {"site_id": resources.edge.site_id},
            "params": {"command_type": "enable"},
            "waves": [{"count": 1}, {"percent": 100}],
            "success_percent": 90,
            "error_percent": 5,
            "min_wave_seconds": 1,
            "max_wave_seconds": 60,
            "rate_per_second": 5,
            "poll_boost": False,
            "dry_run": False,
        }
    ],
    ("PATCH", "/apiv1/rollouts/{rollout_id}"): [_fixed(name="x", success_percent=80, max_wave_seconds=600)],
    ("POST", "/apiv1/jobs/{job_id}/deny"): [_fixed(reason="not now")],
    ("PUT", "/apiv1/poll-boost"): [_fixed(for_seconds=60, interval_seconds=15)],
    **{route: [_edge_body(body) for body in bodies] for route, bodies in EDGE_BODIES.items()},
    **{route: [_event_body(body) for body in bodies] for route, bodies in EVENT_BODIES.items()},
}


def valid_body(server: PopulatedServer, route: Route, resources: Resources) -> dict[str, Any] | None:
    bodies = BODIES.get((route.method, route.path))
    if bodies:
        return bodies[0](server, resources)
    decoded_by_handler = HANDLER_DECODED_BODIES.get((route.method, route.path))
    return decoded_by_handler[0](resources.edge) if decoded_by_handler else None
