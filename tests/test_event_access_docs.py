"""Run the examples of docs/event-access.md unchanged."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from restante.server.config.settings_sources import resolve
from tests.documented import DOCS
from tests.events.client_keys import jwk, private_key
from tests.server.live_server import LiveServer

PAGE = (DOCS / "event-access.md").read_text("utf-8")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[LiveServer]:
    served = LiveServer(tmp_path)
    yield served
    served.close()


def test_assertion_made_with_openssl_gets_a_token(served: LiveServer, tmp_path: Path) -> None:
    keys = {"keys": [jwk("rsa-1", kid="key-1")]}
    served.node.database.write_now(clients.add, ClientRegistration("n", "private_key_jwt", "tpp", jwks=keys))
    pem = private_key("rsa-1").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "client.key").write_bytes(pem)
    (script,) = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    environment = {**os.environ, "SERVER": f"http://127.0.0.1:{served.fast_port}", "CLIENT_ID": "tpp"}
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert json.loads(ran.stdout)["access_token"].startswith("et_"), ran.stderr


def test_documented_settings_are_valid(tmp_path: Path) -> None:
    examples = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    for n, text in enumerate(examples):
        config = tmp_path / f"{n}.toml"
        config.write_text(text)
        resolve({}, {}, config)
