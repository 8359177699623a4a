"""A device against a real server: enrolment by code, signals, install config, certificates, kills of both ends."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from restante_client import BlockingDeviceClient, DeviceDescription
from restante_client.device.models import Session
from restante_client.errors import Forbidden, SessionEnded, WrapPending
from restante_client.testing import LocalServer

from tests.client.person import Person

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer("--poll-rate-per-second", "1000", "--poll-burst", "100000") as server:
        yield server


@pytest.fixture(scope="module")
def person(server: LocalServer) -> Iterator[Person]:
    person = Person(server)
    yield person
    person.http.close()


@pytest.fixture
def device(server: LocalServer, person: Person, tmp_path: Path) -> Iterator[BlockingDeviceClient]:
    with BlockingDeviceClient(server.url, tmp_path / "state") as device:
        device.enrol(person.approve, DeviceDescription(name="till 4", platform="linux"))
        yield device


def send(person: Person, device: BlockingDeviceClient, number: int) -> None:
    person.post(f"{person.base}/devices/{device.store.device_id}/signals", type="shop.price", ref={"number": number})


def test_signals_arrive_in_order_across_a_killed_server(
    server: LocalServer, person: Person, device: BlockingDeviceClient
) -> None:
    found: list[int] = []
    arrived = {3: threading.Event(), 6: threading.Event()}

    def handler(signal: Any) -> None:
        found.append(signal.ref["number"])
        if len(found) in arrived:
            arrived[len(found)].set()

    device.expect(600)
    running = threading.Thread(target=device.run, args=(handler,))
    running.start()
    for number in range(3):
        send(person, device, number)
    assert arrived[3].wait(60)
    server.kill()
    server.start()
    for number in range(3, 6):
        send(person, device, number)
    assert arrived[6].wait(60)
    device.stop()
    running.join(60)
    assert found == list(range(6))


def test_install_config_certificate_and_authority(person: Person, device: BlockingDeviceClient) -> None:
    mine = f"{person.base}/devices/{device.store.device_id}"
    item = {"id": "a", "type": "exec", "cmd": "true"}
    person.put(f"{mine}/install-config", installs=[item], change_note="first")
    ca = person.post(
        f"{person.base}/cas", name="shop", algorithm="ECDSA", curve_name="prime256v1", common_name="shop", valid_days=30
    )
    account = person.post(
        f"{person.base}/acme-accounts", name="a", email="a@example.com", provider="self", ca_id=ca["id"]
    )
    certificate = person.post(
        f"{person.base}/certificates", domain_name="till.example", acct_id=account["id"], action="create"
    )
    person.post(f"{person.base}/certificates/{certificate['id']}/issues", validity_seconds=86_400)
    person.post(f"{mine}/cas", ca_id=ca["id"])
    person.post(f"{mine}/certificates", cert_id=certificate["id"])
    seen = []
    device.expect(600)
    for signal in device.updates():
        seen.append(signal.type)
        if signal.type == "cert.wrap_ready":
            device.stop()
    assert {"install.updated", "ca.assigned", "cert.wrap_ready"} <= set(seen)

    config = device.install_config()
    assert config is not None
    assert [found.id for found in config.installs] == ["a"]
    assert device.install_config(config.version) is None
    opened = device.certificate_bundle(certificate["id"])
    leaf = x509.load_pem_x509_certificate(opened.certificate_pem.encode())
    assert serialization.load_der_private_key(opened.private_key_der, None).public_key() == leaf.public_key()
    assert device.certificate(certificate["id"])["domain_name"] == "till.example"
    authority = x509.load_pem_x509_certificate(device.authority_bundle(ca["id"]).ca_certificate_pem.encode())
    leaf.verify_directly_issued_by(authority)
    device.report({"agent_version": "1.2.3"})
    described = person.http.get(mine).json()["data"]
    assert described["agent_version"] == "1.2.3"


def test_wrap_pending_is_an_error_of_its_own(person: Person, device: BlockingDeviceClient) -> None:
    ca = person.post(f"{person.base}/cas", name="w", algorithm="ECDSA", common_name="w", valid_days=30)
    account = person.post(
        f"{person.base}/acme-accounts", name="w", email="a@example.com", provider="self", ca_id=ca["id"]
    )
    certificate = person.post(
        f"{person.base}/certificates", domain_name="w.example", acct_id=account["id"], action="create"
    )
    person.post(f"{person.base}/devices/{device.store.device_id}/certificates", cert_id=certificate["id"])
    with pytest.raises(WrapPending):
        device.certificate_bundle(certificate["id"])


def test_many_processes_refresh_one_session(device: BlockingDeviceClient, server: LocalServer) -> None:
    """Eight processes find the same expired token: one of them exchanges it, and all go on."""
    session = device.store.session
    assert session is not None
    device.store.save_session(Session(session.access_token + "x", session.refresh_token))
    program = (
        "import sys; from pathlib import Path; from restante_client import BlockingDeviceClient\n"
        "with BlockingDeviceClient(sys.argv[1], Path(sys.argv[2])) as device: print(device.poll().cursor)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, server.url, str(device.store.state.folder)], stdout=subprocess.PIPE
        )
        for _ in range(8)
    ]
    assert [process.communicate(timeout=60)[0] for process in processes] == [b"0-0\n"] * 8


def test_revoked_device_is_refused(person: Person, device: BlockingDeviceClient) -> None:
    device.poll()
    response = person.http.delete(f"{person.base}/devices/{device.store.device_id}")
    assert response.status_code < 300
    with pytest.raises((Forbidden, SessionEnded)):
        device.poll()


def test_example_enrols_and_prints_signals(server: LocalServer, person: Person, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "client" / "examples" / "device.py"
    with subprocess.Popen(
        [sys.executable, str(example), server.url, str(tmp_path / "state")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            invitation = process.stdout.readline()
            user_code = invitation.split()[-1]
            person.post("/auth/device", action="device_verify", user_code=user_code, approve=True)
            devices = person.http.get(f"{person.base}/devices")
            while not [found for found in listed(devices) if found["name"] == "example"]:
                devices = person.http.get(f"{person.base}/devices")
            device_id = next(found["id"] for found in listed(devices) if found["name"] == "example")
            person.post(f"{person.base}/devices/{device_id}/signals", type="shop.price", ref={"number": 1})
            assert process.stdout.readline() == "shop.price {'number': 1}\n"
        finally:
            process.kill()


def listed(response: httpx.Response) -> list[dict[str, Any]]:
    found: Any = response.json()["data"]
    return list(found if isinstance(found, list) else found["devices"])
