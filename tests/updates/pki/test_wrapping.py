import asyncio
from base64 import b64encode

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from nacl.public import PrivateKey

from restante.database.connection import Connection
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity.master_key import MasterKey
from restante.updates.pki import assignments, certificates, wrapping
from restante.updates.pki.assignments import WrapsPending
from restante.updates.pki.crypto.sealing import key_fingerprint
from restante.updates.pki.wrapping import WrapWorker, pending_batch, store_wraps, wrap_batch
from tests.updates.updates_fixture import DeviceFleet, EmitRefused, FleetDevice, decrypt_as_device, refuse_to_emit


@pytest.fixture
def worker(fleet: DeviceFleet) -> WrapWorker:
    return WrapWorker(fleet.database, fleet.master_key, fleet.emit)


def assigned(fleet: DeviceFleet, device: FleetDevice, *, issue: bool = True) -> int:
    certificate = fleet.add_certificate()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    if issue:
        fleet.issue(certificate.id)
    return certificate.id


async def test_device_opens_its_wrapped_key(fleet: DeviceFleet, worker: WrapWorker) -> None:
    device, other = fleet.add_device(), fleet.add_device()
    cert_id = assigned(fleet, device)
    fleet.database.write_now(assignments.assign, fleet.user_id, other.id, cert_id)
    assert await worker.run_once() == 2
    for holder in (device, other):
        bundle = msgspec.to_builtins(fleet.database.read_now(assignments.bundle, holder.id, cert_id))
        der = decrypt_as_device(bundle, holder.private_key)
        key = serialization.load_der_private_key(der, None)
        leaf = x509.load_pem_x509_certificate(bundle["certificate_pem"].encode())
        assert key.public_key() == leaf.public_key()
        assert bundle["device_keyfp_b64"] == b64encode(holder.keyfp).decode()


async def test_each_device_gets_one_signal_with_its_fingerprint(fleet: DeviceFleet, worker: WrapWorker) -> None:
    device, other = fleet.add_device(), fleet.add_device()
    cert_id = assigned(fleet, device)
    fleet.database.write_now(assignments.assign, fleet.user_id, other.id, cert_id)
    await worker.run_once()
    assert await worker.run_once() == 0
    for holder in (device, other):
        keyfp = b64encode(holder.keyfp).decode()
        ref = {"cert_id": cert_id, "device_keyfp_b64": keyfp, "wrap_alg": "x25519"}
        serial = fleet.database.read_now(assignments.bundle, holder.id, cert_id).serial
        assert fleet.signals(holder) == [
            {"type": "cert.wrap_ready", "ref": ref},
            {"type": "cert.updated", "ref": {"cert_id": cert_id, "serial": serial}},
        ]


async def test_unissued_certificate_is_not_wrapped(fleet: DeviceFleet, worker: WrapWorker) -> None:
    device = fleet.add_device()
    cert_id = assigned(fleet, device, issue=False)
    assert await worker.run_once() == 0
    fleet.issue(cert_id)
    assert await worker.run_once() == 1
    assert fleet.signal_types(device) == ["cert.wrap_ready", "cert.updated"]


async def test_renewal_is_wrapped_with_the_new_data_key(fleet: DeviceFleet, worker: WrapWorker) -> None:
    device = fleet.add_device()
    cert_id = assigned(fleet, device)
    await worker.run_once()
    before = fleet.database.read_now(assignments.bundle, device.id, cert_id)
    fleet.issue(cert_id)
    assert await worker.run_once() == 1
    after = fleet.database.read_now(assignments.bundle, device.id, cert_id)
    assert after.enc_data_key_b64 != before.enc_data_key_b64
    assert decrypt_as_device(msgspec.to_builtins(after), device.private_key)
    ready = ["cert.wrap_ready", "cert.updated"]
    assert fleet.signal_types(device) == [*ready, "cert.renewed", *ready]
    assert fleet.signals(device)[-1]["ref"] == {"cert_id": cert_id, "serial": after.serial}


async def test_nothing_is_wrapped_for_a_revoked_device(fleet: DeviceFleet, worker: WrapWorker) -> None:
    device = fleet.add_device()
    assigned(fleet, device)
    fleet.revoke_device(device)
    assert await worker.run_once() == 0
    assert fleet.signals(device) == []


def test_outdated_wrap_is_not_stored(fleet: DeviceFleet) -> None:
    """Changes between read and store: renewal, new device key, unassignment, revocation, another worker's wrap."""

    def renewed(device: FleetDevice, cert_id: int) -> None:
        fleet.issue(cert_id)

    def rekeyed(device: FleetDevice, cert_id: int) -> None:
        key = bytes(PrivateKey.generate().public_key)
        fleet.query("UPDATE user_devices SET dev_pk = :key WHERE id = :id", key=key, id=device.id)

    def unassigned(device: FleetDevice, cert_id: int) -> None:
        fleet.database.write_now(assignments.unassign, fleet.emit, fleet.user_id, device.id, cert_id)

    def revoked(device: FleetDevice, cert_id: int) -> None:
        fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, cert_id)

    def device_revoked(device: FleetDevice, cert_id: int) -> None:
        fleet.revoke_device(device)

    def wrapped(device: FleetDevice, cert_id: int) -> None:
        batch = fleet.database.read_now(pending_batch, 0, 0)
        fleet.database.write_now(store_wraps, outbox.enqueue, wrap_batch(batch, fleet.master_key))

    for change in (renewed, rekeyed, unassigned, revoked, device_revoked, wrapped):
        device = fleet.add_device()
        cert_id = assigned(fleet, device)
        batch = fleet.database.read_now(pending_batch, cert_id, 0)
        wraps = wrap_batch(batch, fleet.master_key)
        assert len(wraps) == 1
        change(device, cert_id)
        signals = fleet.signals(device)
        assert fleet.database.write_now(store_wraps, fleet.emit, wraps) == 0, change.__name__
        assert fleet.signals(device) == signals, change.__name__


def test_refused_signal_rolls_back_the_wrap(fleet: DeviceFleet) -> None:
    assigned(fleet, fleet.add_device())
    wraps = wrap_batch(fleet.database.read_now(pending_batch, 0, 0), fleet.master_key)
    with pytest.raises(EmitRefused):
        fleet.database.write_now(store_wraps, refuse_to_emit, wraps)
    assert fleet.query("SELECT enc_data_key FROM cert_record_devices")[0]["enc_data_key"] == bytes(48)


async def test_new_device_key_gets_a_new_wrap_and_fingerprint(fleet: DeviceFleet, worker: WrapWorker) -> None:
    device = fleet.add_device()
    cert_id = assigned(fleet, device)
    key = PrivateKey.generate()
    public = bytes(key.public_key)
    fleet.query("UPDATE user_devices SET dev_pk = :key WHERE id = :id", key=public, id=device.id)
    assert await worker.run_once() == 1
    bundle = fleet.database.read_now(assignments.bundle, device.id, cert_id)
    assert bundle.device_keyfp_b64 == b64encode(key_fingerprint(public)).decode()
    assert decrypt_as_device(msgspec.to_builtins(bundle), key)


async def test_row_that_cannot_be_wrapped_does_not_block_others(
    fleet: DeviceFleet, worker: WrapWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapping, "BATCH_MAX", 1)
    bad, good = fleet.add_device(), fleet.add_device()
    cert_id = assigned(fleet, bad)
    fleet.database.write_now(assignments.assign, fleet.user_id, good.id, cert_id)
    fleet.query("UPDATE user_devices SET dev_pk = :key WHERE id = :id", key=bytes(32), id=bad.id)
    assert await worker.run_once() == 1
    assert fleet.signals(bad) == []
    assert fleet.signal_types(good) == ["cert.wrap_ready", "cert.updated"]


async def test_wrong_master_key_wraps_nothing(fleet: DeviceFleet) -> None:
    assigned(fleet, fleet.add_device())
    assert await WrapWorker(fleet.database, MasterKey(b"x" * 32), fleet.emit).run_once() == 0


async def test_worker_wraps_when_woken(fleet: DeviceFleet) -> None:
    """The interval is too long to wait for: the worker makes the second wrap only because it is woken."""
    loop = asyncio.get_running_loop()
    signalled: asyncio.Queue[int] = asyncio.Queue()

    def emit(conn: Connection, device_id: int, signal: Signal) -> None:
        outbox.enqueue(conn, device_id, signal)
        if signal.type == "cert.wrap_ready":
            loop.call_soon_threadsafe(signalled.put_nowait, device_id)

    first, second = fleet.add_device(), fleet.add_device()
    cert_id = assigned(fleet, first)
    worker = WrapWorker(fleet.database, fleet.master_key, emit, interval_seconds=3600)
    running = asyncio.create_task(worker.run())
    assert await asyncio.wait_for(signalled.get(), 10) == first.id
    commit_events: list[object] = []
    fleet.database.on_commit(commit_events.extend)
    await fleet.database.write(assignments.assign, fleet.user_id, second.id, cert_id)
    assert WrapsPending() in commit_events
    worker.wake()
    assert await asyncio.wait_for(signalled.get(), 10) == second.id
    worker.stop()
    await asyncio.wait_for(running, 10)


async def test_worker_wraps_after_its_interval(fleet: DeviceFleet) -> None:
    loop = asyncio.get_running_loop()
    signalled: asyncio.Queue[int] = asyncio.Queue()

    def emit(_conn: Connection, device_id: int, _signal: Signal) -> None:
        loop.call_soon_threadsafe(signalled.put_nowait, device_id)

    device = fleet.add_device()
    assigned(fleet, device)
    worker = WrapWorker(fleet.database, fleet.master_key, emit, interval_seconds=0.01)
    running = asyncio.create_task(worker.run())
    assert await asyncio.wait_for(signalled.get(), 10) == device.id
    fleet.query("UPDATE cert_record_devices SET enc_data_key = :pending", pending=bytes(48))
    assert await asyncio.wait_for(signalled.get(), 10) == device.id
    worker.stop()
    await asyncio.wait_for(running, 10)
