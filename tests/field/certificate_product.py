"""Stand-ins for the clients of the certificate product: its scripts, and its agent on a device.

They send what the real programs send, in their order, and read what those read: the scripts take the whole `Set-Cookie`
value as their cookie, the agent sends its cursor quoted in `If-None-Match` and again in the query, ignores signals of
types that it does not know, and discards a second signal with the same type and time. No code of the server is used.
"""

import base64
import hashlib
from typing import Any
from uuid import uuid4

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.public import PrivateKey, SealedBox

TIMEOUT_SECONDS = 60.0
WAIT_SECONDS = 25
SELF = "/apiv1/devices/self"

# The signals that each generation of agents acts on, and whether the certificate is there or gone.
OLDER = {"cert.wrap_ready": True, "cert.revoked": False}
NEWER = {"cert.updated": True, "cert.unassigned": False}


class Scripts:
    """The product's scripts: a person who is signed in with a cookie."""

    def __init__(self, base_url: str) -> None:
        self._http = httpx.Client(base_url=base_url, timeout=TIMEOUT_SECONDS)
        self._cookie = ""
        self.user_id = 0

    def close(self) -> None:
        self._http.close()

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"Cookie": self._cookie, **headers}
        # A jar would send a second cookie; the scripts have none.
        self._http.cookies.clear()
        return self._http.request(method, path, json=body, headers=sent)

    def data(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The `data` of a response, as jq reads it. The scripts stop at any other status."""
        response = self.send(method, path, body, **headers)
        assert response.status_code in (200, 201, 202, 204), f"{method} {path}: {response.text}"
        return response.json()["data"] if response.content else None

    def own(self, path: str) -> str:
        return f"/apiv1/users/{self.user_id}{path}"

    def sign_in(self, email: str, password: str) -> dict[str, Any]:
        body = {"action": "login", "email": email, "password": password}
        response = self._http.post("/auth/general", json=body)
        assert response.status_code == 200, response.text
        self._cookie = response.headers["set-cookie"]
        data: dict[str, Any] = response.json()["data"]
        self.user_id = data["user"]["id"]
        return data

    def approve(self, user_code: str) -> None:
        body = {"action": "device_verify", "user_code": user_code, "approve": True}
        assert self.data("POST", "/auth/device", body)["status"] == "approved"

    def create_authority(self) -> dict[str, Any]:
        body = {
            "name": "test-ca",
            "algorithm": "ECDSA",
            "key_size": 256,
            "curve_name": "prime256v1",
            "country": "CN",
            "organization": "Test Org",
            "organizational_unit": "",
            "common_name": "Test Root CA",
            "state": "",
            "locality": "",
            "valid_days": 3650,
            "max_path_length": 0,
            "key_usage": "keyCertSign,cRLSign",
        }
        made: dict[str, Any] = self.data("POST", self.own("/cas"), body)
        return made

    def create_account(self, ca_id: int) -> dict[str, Any]:
        body = {
            "name": "test-acct",
            "email": "test@example.com",
            "provider": "SELF_CA",
            "ca_id": ca_id,
            "cert_valid_seconds": 315360000,
            "leaf_key_algorithm": "ECDSA",
            "leaf_ec_curve": "prime256v1",
        }
        made: dict[str, Any] = self.data("POST", self.own("/acme-accounts"), body)
        return made

    def create_certificate(self, acct_id: int) -> int:
        body = {
            "domain_name": "capture-bundle.local",
            "sans": ["*.capture-bundle.local"],
            "acct_id": acct_id,
            "action": "create",
            "organization": "Test Org",
            "organizational_unit": "IT",
            "country": "US",
            "state": "CA",
            "locality": "San Jose",
        }
        return int(self.data("POST", self.own("/certificates"), body)["id"])

    def issue(self, cert_id: int) -> dict[str, Any]:
        path = self.own(f"/certificates/{cert_id}/issues")
        issued: dict[str, Any] = self.data("POST", path, {"validity_seconds": 7776000})
        return issued

    def put_install_config(self, device_id: int, cert_id: int, ca_id: int) -> None:
        common = {"continue_on_error": False, "depends_on": [], "cmd": "", "cmd_argv": [], "timeout_ms": 0}
        rest = {"run_as": "", "env": {}}
        certificate = {
            "id": "cert-1",
            "type": "copy",
            "tags": [],
            "ob_type": "cert",
            "ob_id": cert_id,
            "ob_name": "capture-bundle.local",
            "from": ["private.key", "fullchain.pem"],
            "to": ["/opt/cert-ctrl/private.key", "/opt/cert-ctrl/fullchain.pem"],
            "verify": {"type": "cert_fingerprint"},
        }
        authority = {
            "id": "ca-1",
            "type": "copy",
            "tags": ["ca-install"],
            "ob_type": "ca",
            "ob_id": ca_id,
            "ob_name": "test-ca",
            "from": ["ca.pem"],
            "to": ["/opt/cert-ctrl/ca.pem"],
            "verify": {},
        }
        installs = [{**common, **item, **rest} for item in (certificate, authority)]
        path = self.own(f"/devices/{device_id}/install-config")
        self.data("PUT", path, {"installs": installs, "change_note": "capture install"})


class Agent:
    """The product's agent on a device: its key never leaves it."""

    def __init__(self, base_url: str, signals: dict[str, bool]) -> None:
        self._http = httpx.Client(base_url=base_url, timeout=TIMEOUT_SECONDS)
        self._signals = signals
        self._key = PrivateKey.generate()
        self._public_id = str(uuid4())
        self._cursor = ""
        self._seen: set[tuple[str, int]] = set()
        self.access_token = self.refresh_token = ""
        self.id = 0
        # What the agent has installed, by id.
        self.certificates: dict[int, dict[str, Any]] = {}
        self.authorities: dict[int, dict[str, Any]] = {}
        self.config: dict[str, Any] | None = None

    def close(self) -> None:
        self._http.close()

    def start_device_code(self) -> dict[str, Any]:
        body = {
            "action": "device_start",
            "scopes": ["openid", "profile", "email"],
            "interval": 5,
            "expires_in": 900,
        }
        started: dict[str, Any] = self._data("POST", "/auth/device", body)
        return started

    def poll_device_code(self, device_code: str, **device_id: int) -> dict[str, Any]:
        body = {"action": "device_poll", "device_code": device_code, **device_id}
        polled: dict[str, Any] = self._data("POST", "/auth/device", body)
        return polled

    def registration(self, **proof: str) -> dict[str, Any]:
        return {
            "device_public_id": self._public_id,
            "platform": "linux",
            "model": "x86_64",
            "app_version": "1.0.0",
            "name": "Test Device",
            "ip": "127.0.0.1",
            "user_agent": "DeviceRegistrationScript/1.0",
            "dev_pk": base64.b64encode(bytes(self._key.public_key)).decode(),
            **proof,
        }

    def register(self, registration_code: str) -> None:
        body = self.registration(registration_code=registration_code)
        self.keep_registration(self._data("POST", "/apiv1/device/registration", body))

    def keep_registration(self, registered: dict[str, Any]) -> None:
        self.id = registered["device"]["id"]
        self.keep_tokens(registered["session"])

    def keep_tokens(self, tokens: dict[str, Any]) -> None:
        assert tokens["token_type"] == "Bearer"
        self.access_token, self.refresh_token = tokens["access_token"], tokens["refresh_token"]

    def refresh(self) -> None:
        self.keep_tokens(self._data("POST", "/auth/refresh", {"refresh_token": self.refresh_token})["session"])

    def get(self, path: str, **headers: str) -> httpx.Response:
        sent = {"Authorization": f"Bearer {self.access_token}", **headers}
        return self._http.get(SELF + path, headers=sent)

    def notify(self) -> int:
        event = {"type": "agent_version", "agent": "cert-ctrl", "version": "1.4.2", "device_public_id": self._public_id}
        body = {"schema": "certctrl.device.notify.v1", "events": [event]}
        sent = {"Authorization": f"Bearer {self.access_token}"}
        return self._http.post(SELF + "/notify", json=body, headers=sent).status_code

    def poll(self, wait: int = WAIT_SECONDS) -> list[str]:
        """Poll once, act on the signals, and then keep the cursor. Returns the types of all new signals."""
        headers = {"If-None-Match": f'"{self._cursor}"'} if self._cursor else {}
        query = f"&cursor={self._cursor}" if self._cursor else ""
        response = self.get(f"/updates?limit=20&wait={wait}{query}", **headers)
        assert response.status_code in (200, 204), response.text
        assert int(response.headers["x-poll-interval"]) > 0
        signals = response.json()["data"]["signals"] if response.status_code == 200 else []
        fresh = [signal for signal in signals if (signal["type"], signal["ts_ms"]) not in self._seen]
        for signal in fresh:
            self._act(signal["type"], signal["ref"])
            self._seen.add((signal["type"], signal["ts_ms"]))
        self._cursor = response.headers["etag"]
        return [signal["type"] for signal in fresh]

    def poll_until(self, type: str) -> list[str]:
        """Poll until a signal of this type has arrived."""
        types: list[str] = []
        while type not in types:
            found = self.poll()
            assert found, f"no {type} within {WAIT_SECONDS} seconds after {types}"
            types += found
        return types

    def open_key(self, bundle: dict[str, Any]) -> Any:
        """The private key of the certificate, opened with this device's key."""
        assert (bundle["wrap_alg"], bundle["enc_scheme"]) == ("x25519", "aes256gcm")
        fingerprint = hashlib.blake2b(bytes(self._key.public_key), digest_size=32).digest()
        assert base64.b64decode(bundle["device_keyfp_b64"]) == fingerprint
        data_key = SealedBox(self._key).decrypt(base64.b64decode(bundle["enc_data_key_b64"]))
        sealed = base64.b64decode(bundle["enc_privkey_b64"]) + base64.b64decode(bundle["privkey_tag_b64"])
        der = AESGCM(data_key).decrypt(base64.b64decode(bundle["privkey_nonce_b64"]), sealed, None)
        return serialization.load_der_private_key(der, None)

    def _act(self, type: str, ref: dict[str, Any]) -> None:
        if type == "install.updated":
            self.config = self._fetch("/install-config")
        elif type == "ca.assigned":
            self.authorities[ref["ca_id"]] = self._fetch(f"/cas/{ref['ca_id']}/bundle?pack=download")
        elif type == "ca.unassigned":
            del self.authorities[ref["ca_id"]]
        elif type in self._signals:
            cert_id = ref["cert_id"]
            if self._signals[type]:
                self.certificates[cert_id] = self._fetch(f"/certificates/{cert_id}/bundle?pack=download")
            else:
                self.certificates.pop(cert_id, None)

    def _fetch(self, path: str) -> dict[str, Any]:
        response = self.get(path)
        assert response.status_code == 200, response.text
        if "pack=download" in path:
            assert response.headers["content-disposition"].startswith("attachment")
        data: dict[str, Any] = response.json()["data"]
        return data

    def _data(self, method: str, path: str, body: Any) -> Any:
        response = self._http.request(method, path, json=body)
        assert response.status_code == 200, f"{method} {path}: {response.text}"
        return response.json()["data"]
