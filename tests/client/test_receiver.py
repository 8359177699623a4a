"""A receiver of events against a real server: credentials, long polls, a killed server, a killed receiver."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from restante_client import BlockingEventReceiver, ClientSecret, Event, PrivateKeyJwt
from restante_client.errors import ResponseError
from restante_client.testing import LocalServer

pytestmark = pytest.mark.slow

KEY = ec.generate_private_key(ec.SECP256R1())
KEY_PEM = KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def public_jwk() -> dict[str, str]:
    numbers = KEY.public_key().public_numbers()
    x, y = (base64.urlsafe_b64encode(n.to_bytes(32, "big")).rstrip(b"=").decode() for n in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": "P-256", "kid": "own", "use": "sig", "alg": "ES256", "x": x, "y": y}


class Bank:
    """The operator of the server: registers clients and publishes events."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.http = httpx.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {server.admin_key}"}, timeout=30
        )

    def post(self, path: str, **body: Any) -> Any:
        response = self.http.post(path, json=body)
        assert response.status_code < 300, response.text
        return response.json()

    def client(self, **more: Any) -> Any:
        return self.post("/admin/clients", name="shop", set_signing_alg="ES256", scope="eventpolling", **more)

    def publish(self, client_id: str, number: int) -> None:
        subject = {
            "subject_type": "http://openbanking.org.uk/rid_http://openbanking.org.uk/rty",
            "http://openbanking.org.uk/rid": str(number),
            "http://openbanking.org.uk/rty": "domestic-payment",
            "http://openbanking.org.uk/rlk": [{"version": "v4.0", "link": "https://bank.example/1"}],
        }
        events = {"urn:uk:org:openbanking:events:resource-update": {"subject": subject}}
        self.post("/admin/events", client_id=client_id, sub=f"https://bank.example/{number}", events=events)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


@pytest.fixture
def bank(server: LocalServer) -> Iterator[Bank]:
    bank = Bank(server)
    yield bank
    bank.http.close()


def numbers(receiver: BlockingEventReceiver, count: int) -> list[str]:
    """Receive this many events, then stop."""
    found: list[str] = []

    def handler(event: Event) -> None:
        found.append(event.claims["sub"].rpartition("/")[2])
        if len(found) == count:
            receiver.stop()

    receiver.run(handler)
    return found


def test_events_arrive_in_order_with_a_signed_assertion(bank: Bank, tmp_path: Path) -> None:
    made = bank.client(token_endpoint_auth_method="private_key_jwt", jwks={"keys": [public_jwk()]})
    credentials = PrivateKeyJwt(made["client_id"], KEY_PEM, "ES256", "own")
    for number in range(5):
        bank.publish(made["client_id"], number)
    with BlockingEventReceiver(bank.server.url, credentials, tmp_path) as receiver:
        assert numbers(receiver, 5) == ["0", "1", "2", "3", "4"]
    status = bank.http.get(f"/admin/clients/{made['client_id']}").json()
    assert status["client_id"] == made["client_id"]
    with BlockingEventReceiver(bank.server.url, credentials, tmp_path / "new") as other:
        assert other.poll(is_immediate=True) is False
        assert other.store.next_to_handle() is None, "an acknowledged event came again"


def test_events_survive_a_killed_server(bank: Bank, tmp_path: Path) -> None:
    made = bank.client(token_endpoint_auth_method="client_secret_basic")
    credentials = ClientSecret(made["client_id"], made["client_secret"])
    bank.publish(made["client_id"], 1)
    with BlockingEventReceiver(bank.server.url, credentials, tmp_path) as receiver:
        receiver.poll()
        bank.server.kill()
        bank.server.start()
        bank.publish(made["client_id"], 2)
        assert numbers(receiver, 2) == ["1", "2"]


def test_wrong_secret_is_refused(bank: Bank, tmp_path: Path) -> None:
    made = bank.client(token_endpoint_auth_method="client_secret_basic")
    with (
        BlockingEventReceiver(bank.server.url, ClientSecret(made["client_id"], "wrong"), tmp_path) as receiver,
        pytest.raises(ResponseError, match="invalid_client"),
    ):
        receiver.poll(is_immediate=True)


def test_killed_example_loses_no_event(bank: Bank, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "client" / "examples" / "receiver.py"
    made = bank.client(token_endpoint_auth_method="client_secret_basic")
    command = [sys.executable, str(example), bank.server.url, made["client_id"], str(tmp_path / "state")]
    environment = {**os.environ, "CLIENT_SECRET": made["client_secret"]}
    found: list[str] = []
    for number in range(3):
        bank.publish(made["client_id"], number)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            while str(number) not in found:
                found.append(json.loads(process.stdout.readline())["sub"].rpartition("/")[2])
            process.kill()
    # An event whose receiver was killed before it was marked as handled may come twice, never out of order.
    assert list(dict.fromkeys(found)) == ["0", "1", "2"]
