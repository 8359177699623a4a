"""A server with one device: config, certificates, authorities, signals, reports. Built on the scripted server.

`server.script` takes steps that come before the normal answers, to lose or refuse requests.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any, Optional

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID
from nacl.public import PrivateKey, SealedBox
from scripted_server import Reply, Request, ScriptedServer, data, error

from restante_client.agent import main
from restante_client.device.bundles import key_fingerprint
from restante_client.device.models import Session
from restante_client.device.store import DeviceStore

SELF = "/apiv1/devices/self/"


class DeviceServer:
    def __init__(self) -> None:
        self.http = ScriptedServer(default=self._answer)
        self.url = self.http.url
        self.config: Optional[dict[str, Any]] = None
        self.bundles: dict[int, Any] = {}
        self.authorities: dict[int, Any] = {}
        self.signals: list[dict[str, Any]] = []
        self.reports: list[dict[str, Any]] = []
        self.trimmed = 0
        self.notify_error: Optional[Reply] = None

    def script(self, path: str, *steps: Reply) -> None:
        """The next requests whose path ends so get these answers."""
        remaining = list(steps)
        normal = self.http.default

        def answer(request: Request) -> Reply:
            if remaining and request.path.split("?")[0].endswith(path):
                return remaining.pop(0)
            assert callable(normal)
            return normal(request)

        self.http.default = answer

    def put_config(self, *items: dict[str, Any], script: Optional[str] = None, hash: Optional[str] = None) -> None:
        text = json.dumps(list(items))
        version = self.config["version"] + 1 if self.config else 1
        digest = hash or base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        self.config = {
            "id": 5,
            "version": version,
            "installs": list(items),
            "installs_json": text,
            "installs_hash": digest,
            "after_update_script": script,
        }
        self.send("install.updated", config_id=5, version=version, installs_hash_b64=digest)

    def send(self, type: str, **ref: Any) -> None:
        self.signals.append({"type": type, "ts_ms": 1000 + len(self.signals), "ref": ref})

    def reported(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.reports if event["type"] == type]

    def close(self) -> None:
        self.http.close()

    def _answer(self, request: Request) -> Reply:
        path = request.path.split("?")[0]
        name, _, rest = path[len(SELF) :].partition("/")
        if name == "updates":
            return self._updates(request)
        if name == "notify" and self.notify_error is not None:
            return self.notify_error
        if name == "notify":
            self.reports.extend(request.json["events"])
            return Reply(204)
        if name == "install-config":
            return self._config(request)
        if name == "certificates":
            return self._object(self.bundles, rest)
        return self._object(self.authorities, rest) if name == "cas" else error(404)

    def _updates(self, request: Request) -> Reply:
        cursor = int(request.headers.get("If-None-Match", "0"))
        if cursor < self.trimmed:
            params = {"action": "full_resync", "reason": "cursor_trimmed", "reset_cursor": str(len(self.signals))}
            return error(409, "Cursor expired.", code=40901, params=params)
        new = self.signals[cursor:]
        headers = {"ETag": str(len(self.signals)), "X-Poll-Interval": "3000"}
        if not new:
            return Reply(204, b"", headers)
        return data({"cursor": headers["ETag"], "signals": new}, ETag=headers["ETag"], X_Poll_Interval="3000")

    def _config(self, request: Request) -> Reply:
        if self.config is None:
            return error(404)
        is_known = request.headers.get("If-None-Match") == f'"{self.config["version"]}"'
        return Reply(304) if is_known else data(self.config)

    def _object(self, objects: dict[int, Any], rest: str) -> Reply:
        found = objects.get(int(rest.partition("/")[0]))
        if isinstance(found, Reply):
            return found
        return error(404) if found is None else data(found)


def certificate(name: str, *, is_ca: bool = False) -> tuple[x509.Certificate, Any]:
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(uuid.uuid4().int >> 1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made, key


def pem_of(made: x509.Certificate) -> str:
    return made.public_bytes(serialization.Encoding.PEM).decode()


def bundle_for(device_key: bytes, name: str, *, key: Any = None) -> dict[str, Any]:
    """A certificate bundle for a device. `key`: another key than the certificate's."""
    made, own_key = certificate(name)
    key_der = (key or own_key).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = PrivateKey(device_key).public_key
    data_key, nonce = os.urandom(32), os.urandom(12)
    encrypted = AESGCM(data_key).encrypt(nonce, key_der, None)
    values = {
        "device_keyfp_b64": key_fingerprint(bytes(public)),
        "enc_data_key_b64": SealedBox(public).encrypt(data_key),
        "enc_privkey_b64": encrypted[:-16],
        "privkey_nonce_b64": nonce,
        "privkey_tag_b64": encrypted[-16:],
    }
    encoded = {field: base64.b64encode(value).decode() for field, value in values.items()}
    pem = pem_of(made)
    texts = {"serial": f"{made.serial_number:x}", "domain_name": name, "wrap_alg": "x25519", "enc_scheme": "aes256gcm"}
    return {**encoded, **texts, "certificate_pem": pem, "chain_pem": pem, "fullchain_pem": pem + pem}


def authority_bundle(ca_id: int, name: str, *, is_ca: bool = True) -> dict[str, Any]:
    made, _ = certificate(name, is_ca=is_ca)
    der = base64.b64encode(made.public_bytes(serialization.Encoding.DER)).decode()
    return {
        "id": ca_id,
        "name": name,
        "serial_number": f"{made.serial_number:x}",
        "ca_certificate_pem": pem_of(made),
        "ca_certificate_der_b64": der,
    }


class Agent:
    """The device agent as a person starts it, in this process, on a folder of its own."""

    def __init__(self, folder: Path, server: DeviceServer) -> None:
        self.folder = folder
        self.server = server
        self.state = folder / "state"
        self.out = folder / "out"
        self.anchors = folder / "anchors"
        for path in (self.out, self.anchors, folder / "handlers"):
            path.mkdir()
        self.file = folder / "device.toml"
        self.configure()
        store = DeviceStore(self.state)
        store.save_registration(7, Session("secret-access", "secret-refresh"))
        self.device_key = store.private_key_bytes
        store.close()

    def configure(self, text: str = "", *, apply: str = "", trust: str = "") -> None:
        self.file.write_text(
            f'server = "{self.server.url}"\n{text}\n[apply]\n{apply}\n'
            f'[allow]\npaths = ["{self.out}"]\ncommands = ["touch {self.out}/*", "false", "sh -c **"]\n'
            f'shell = ["true && true"]\n'
            f'[trust]\nfolder = "{self.anchors}"\nupdate_command = ["touch", "{self.folder}/updated"]\n{trust}\n'
            f'[handlers]\nfolder = "{self.folder}/handlers"\nattempts_max = 3\n'
        )

    def add_handler(self, type: str, body: str) -> Path:
        """A handler that appends its input to the file `heard`."""
        path = self.folder / "handlers" / type
        path.write_text(f"#!/bin/sh\ncat >> {self.folder}/heard\n{body}\n")
        path.chmod(0o755)
        return path

    def call(self, *arguments: str) -> int:
        command, *others = arguments
        return main.main(["device", command, "--config", str(self.file), "--state", str(self.state), *others])

    def run(self) -> int:
        return self.call("run", "--once")

    def copy_item(self, id: str, name: str, **fields: Any) -> dict[str, Any]:
        """Copies `files/<name>` of the state folder to the same name in the allowed folder."""
        return {"id": id, "type": "copy", "from": [name], "to": [str(self.out / name)], **fields}

    def put_file(self, name: str, content: str) -> None:
        (self.state / "files").mkdir(exist_ok=True)
        (self.state / "files" / name).write_text(content)
