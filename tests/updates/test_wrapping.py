import asyncio
from base64 import b64encode

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from nacl.public import PrivateKey

from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery import outbox
from restante.delivery.signals import Signal
from restante.identity.master_key import MasterKey
from restante.updates import assignments, certificates, wrapping
from restante.updates.assignments import WrapsPending
from restante.updates.sealing import key_fingerprint
from restante.updates.wrapping import WrapWorker, pending_batch, store_wraps, wrap_batch
from tests.updates.world import OwnedDevice, Told, World, decrypt_as_device, refuse_to_emit


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
def worker(world: World) -> WrapWorker:
    return WrapWorker(world.database, world.master_key, world.emit)


def assigned(world: World, device: OwnedDevice, *, issue: bool = True) -> int:
    certificate = world.add_certificate()
    world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    if issue:
        world.issue(certificate.id)
    return certificate.id


async def test_a_device_opens_what_was_wrapped_for_it(world: World, worker: WrapWorker) -> None:
    device, other = world.add_device(), world.add_device()
    cert_id = assigned(world, device)
    world.database.write_now(assignments.assign, world.user_id, other.id, cert_id)
    assert await worker.run_once() == 2
    for holder in (device, other):
        bundle = msgspec.to_builtins(world.database.read_now(assignments.bundle, holder.id, cert_id))
        der = decrypt_as_device(bundle, holder.private_key)
        key = serialization.load_der_private_key(der, None)
        leaf = x509.load_pem_x509_certificate(bundle["certificate_pem"].encode())
        assert key.public_key() == leaf.public_key()
        assert bundle["device_keyfp_b64"] == b64encode(holder.keyfp).decode()


async def test_each_device_is_told_once_with_its_own_fingerprint(world: World, worker: WrapWorker) -> None:
    device, other = world.add_device(), world.add_device()
    cert_id = assigned(world, device)
    world.database.write_now(assignments.assign, world.user_id, other.id, cert_id)
    await worker.run_once()
    assert await worker.run_once() == 0
    for holder in (device, other):
        keyfp = b64encode(holder.keyfp).decode()
        ref = {"cert_id": cert_id, "device_keyfp_b64": keyfp, "wrap_alg": "x25519"}
        assert world.signals(holder) == [{"type": "cert.wrap_ready", "ref": ref}]


async def test_what_is_not_issued_waits(world: World, worker: WrapWorker) -> None:
    device = world.add_device()
    cert_id = assigned(world, device, issue=False)
    assert await worker.run_once() == 0
    world.issue(cert_id)
    assert await worker.run_once() == 1
    assert world.signal_types(device) == ["cert.wrap_ready"]


async def test_renewing_wraps_again_with_the_new_key(world: World, worker: WrapWorker) -> None:
    device = world.add_device()
    cert_id = assigned(world, device)
    await worker.run_once()
    before = world.database.read_now(assignments.bundle, device.id, cert_id)
    world.issue(cert_id)
    assert await worker.run_once() == 1
    after = world.database.read_now(assignments.bundle, device.id, cert_id)
    assert after.enc_data_key_b64 != before.enc_data_key_b64
    assert decrypt_as_device(msgspec.to_builtins(after), device.private_key)
    assert world.signal_types(device) == ["cert.wrap_ready", "cert.renewed", "cert.wrap_ready"]


async def test_nothing_is_wrapped_for_a_revoked_device(world: World, worker: WrapWorker) -> None:
    device = world.add_device()
    assigned(world, device)
    world.revoke_device(device)
    assert await worker.run_once() == 0
    assert world.signals(device) == []


def test_a_wrap_that_comes_too_late_is_dropped(world: World) -> None:
    """Between reading and storing: renewed, given a new key, taken away, revoked, wrapped by another."""

    def renewed(device: OwnedDevice, cert_id: int) -> None:
        world.issue(cert_id)

    def rekeyed(device: OwnedDevice, cert_id: int) -> None:
        key = bytes(PrivateKey.generate().public_key)
        world.query("UPDATE user_devices SET dev_pk = :key WHERE id = :id", key=key, id=device.id)

    def unassigned(device: OwnedDevice, cert_id: int) -> None:
        world.database.write_now(assignments.unassign, world.emit, world.user_id, device.id, cert_id)

    def revoked(device: OwnedDevice, cert_id: int) -> None:
        world.database.write_now(certificates.revoke, world.emit, world.user_id, cert_id)

    def device_revoked(device: OwnedDevice, cert_id: int) -> None:
        world.revoke_device(device)

    def wrapped(device: OwnedDevice, cert_id: int) -> None:
        batch = world.database.read_now(pending_batch, 0, 0)
        world.database.write_now(store_wraps, outbox.enqueue, wrap_batch(batch, world.master_key))

    for meanwhile in (renewed, rekeyed, unassigned, revoked, device_revoked, wrapped):
        device = world.add_device()
        cert_id = assigned(world, device)
        batch = world.database.read_now(pending_batch, cert_id, 0)
        wraps = wrap_batch(batch, world.master_key)
        assert len(wraps) == 1
        meanwhile(device, cert_id)
        told = world.signals(device)
        assert world.database.write_now(store_wraps, world.emit, wraps) == 0, meanwhile.__name__
        assert world.signals(device) == told, meanwhile.__name__


def test_telling_and_storing_are_one(world: World) -> None:
    assigned(world, world.add_device())
    wraps = wrap_batch(world.database.read_now(pending_batch, 0, 0), world.master_key)
    with pytest.raises(Told):
        world.database.write_now(store_wraps, refuse_to_emit, wraps)
    assert world.query("SELECT enc_data_key FROM cert_record_devices")[0]["enc_data_key"] == bytes(48)


async def test_a_new_device_key_gets_a_new_wrap_and_fingerprint(world: World, worker: WrapWorker) -> None:
    device = world.add_device()
    cert_id = assigned(world, device)
    key = PrivateKey.generate()
    public = bytes(key.public_key)
    world.query("UPDATE user_devices SET dev_pk = :key WHERE id = :id", key=public, id=device.id)
    assert await worker.run_once() == 1
    bundle = world.database.read_now(assignments.bundle, device.id, cert_id)
    assert bundle.device_keyfp_b64 == b64encode(key_fingerprint(public)).decode()
    assert decrypt_as_device(msgspec.to_builtins(bundle), key)


async def test_a_row_that_cannot_be_wrapped_holds_back_no_other(
    world: World, worker: WrapWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapping, "BATCH_MAX", 1)
    bad, good = world.add_device(), world.add_device()
    cert_id = assigned(world, bad)
    world.database.write_now(assignments.assign, world.user_id, good.id, cert_id)
    world.query("UPDATE user_devices SET dev_pk = :key WHERE id = :id", key=bytes(32), id=bad.id)
    assert await worker.run_once() == 1
    assert world.signals(bad) == []
    assert world.signal_types(good) == ["cert.wrap_ready"]


async def test_a_wrong_master_key_wraps_nothing_and_survives(world: World) -> None:
    assigned(world, world.add_device())
    assert await WrapWorker(world.database, MasterKey(b"x" * 32), world.emit).run_once() == 0


async def test_the_worker_wraps_when_it_is_rung(world: World) -> None:
    """With an interval no test could wait for: only the ring brings the worker to the second wrap."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[int] = asyncio.Queue()

    def emit(conn: Connection, device_id: int, signal: Signal) -> None:
        outbox.enqueue(conn, device_id, signal)
        loop.call_soon_threadsafe(told.put_nowait, device_id)

    first, second = world.add_device(), world.add_device()
    cert_id = assigned(world, first)
    worker = WrapWorker(world.database, world.master_key, emit, interval_seconds=3600)
    running = asyncio.create_task(worker.run())
    assert await asyncio.wait_for(told.get(), 10) == first.id
    heard: list[object] = []
    world.database.on_commit(heard.extend)
    await world.database.write(assignments.assign, world.user_id, second.id, cert_id)
    assert WrapsPending() in heard
    worker.ring()
    assert await asyncio.wait_for(told.get(), 10) == second.id
    worker.stop()
    await asyncio.wait_for(running, 10)


async def test_the_interval_finds_what_nobody_rang_for(world: World) -> None:
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[int] = asyncio.Queue()

    def emit(_conn: Connection, device_id: int, _signal: Signal) -> None:
        loop.call_soon_threadsafe(told.put_nowait, device_id)

    device = world.add_device()
    assigned(world, device)
    worker = WrapWorker(world.database, world.master_key, emit, interval_seconds=0.01)
    running = asyncio.create_task(worker.run())
    assert await asyncio.wait_for(told.get(), 10) == device.id
    world.query("UPDATE cert_record_devices SET enc_data_key = :pending", pending=bytes(48))
    assert await asyncio.wait_for(told.get(), 10) == device.id
    worker.stop()
    await asyncio.wait_for(running, 10)
