"""The wrap worker: replaces pending sentinels with data keys that only the row's device can open.

    read a batch of pending rows ─▶ seal each data key (no transaction) ─▶ one write: compare, set, send signals

A wrap is stored only if the sentinel is still there, the certificate is still at the issue whose data key was wrapped,
and the device still has the key that it was wrapped for; otherwise the row stays pending until the next round. The
signal is written in the same transaction, for exactly the rows that changed. A row that cannot be wrapped (the device's
key is a bad point, or the master key does not open the data key) is logged and does not block other rows.
"""

import asyncio
from base64 import b64encode
from dataclasses import dataclass

import structlog
from nacl.exceptions import CryptoError

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Emit, Signal
from restante.delivery.wakeup import Wakeup
from restante.identity.master_key import MasterKey, MasterKeyError
from restante.updates import signal_types
from restante.updates.pki.crypto.sealing import DATA_KEY_PURPOSE, PENDING_WRAP, WRAP_ALG, key_fingerprint, wrap_data_key

SQL = queries_beside(__file__)
log = structlog.get_logger()

BATCH_MAX = 200
INTERVAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PendingWrap:
    cert_record_id: int
    device_id: int
    issue_number: int
    serial: str
    sealed_data_key: bytes
    dev_pk: bytes


@dataclass(frozen=True, slots=True)
class WrappedKey:
    pending: PendingWrap
    device_keyfp: bytes
    enc_data_key: bytes


def pending_batch(conn: Connection, after_cert: int, after_device: int) -> list[PendingWrap]:
    """Pending rows in key order, after the given key."""
    rows = conn.all(
        SQL.pending_batch,
        pending=PENDING_WRAP,
        after_cert=after_cert,
        after_device=after_device,
        limit=BATCH_MAX,
    )
    return [PendingWrap(**row) for row in rows]


def wrap_batch(batch: list[PendingWrap], master_key: MasterKey) -> list[WrappedKey]:
    """Wrap the data keys of a batch: a few tenths of a millisecond per row."""
    wrapped = []
    for row in batch:
        try:
            data_key = master_key.open(row.sealed_data_key, DATA_KEY_PURPOSE)
            enc_data_key = wrap_data_key(data_key, row.dev_pk)
        except (CryptoError, MasterKeyError) as error:
            log.error("data key not wrapped", cert_id=row.cert_record_id, device_id=row.device_id, error=str(error))
            continue
        wrapped.append(WrappedKey(row, key_fingerprint(row.dev_pk), enc_data_key))
    return wrapped


def store_wraps(conn: Connection, emit: Emit, wraps: list[WrappedKey]) -> int:
    """Store the wraps that are still current, with a signal each; returns how many."""
    return sum(_store_wrap(conn, emit, wrapped) for wrapped in wraps)


def _store_wrap(conn: Connection, emit: Emit, wrapped: WrappedKey) -> bool:
    cert_id, device_id = wrapped.pending.cert_record_id, wrapped.pending.device_id
    changed = conn.run(
        SQL.store_wrap,
        cert_id=cert_id,
        device_id=device_id,
        issue_number=wrapped.pending.issue_number,
        dev_pk=wrapped.pending.dev_pk,
        device_keyfp=wrapped.device_keyfp,
        wrap_alg=WRAP_ALG,
        enc_data_key=wrapped.enc_data_key,
        pending=PENDING_WRAP,
    )
    if not changed:
        return False
    fingerprint = b64encode(wrapped.device_keyfp).decode()
    ref = {"cert_id": cert_id, "device_keyfp_b64": fingerprint, "wrap_alg": WRAP_ALG}
    emit(conn, device_id, Signal(signal_types.CERT_WRAP_READY, conn.now_ms, ref))
    updated = {"cert_id": cert_id, "serial": wrapped.pending.serial}
    emit(conn, device_id, Signal(signal_types.CERT_UPDATED, conn.now_ms, updated))
    return True


class WrapWorker:
    """Wraps pending data keys when woken, and every few seconds in any case."""

    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        emit: Emit,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._emit = emit
        self._interval_seconds = interval_seconds
        self._wakeup = Wakeup()
        self.wake = self._wakeup.wake
        self.stop = self._wakeup.stop

    async def run_once(self) -> int:
        """Wrap all pending data keys; returns how many were stored."""
        done = 0
        after = (0, 0)
        while batch := await self._database.read(pending_batch, *after):
            wraps = await asyncio.to_thread(wrap_batch, batch, self._master_key)
            if wraps:
                done += await self._database.write(store_wraps, self._emit, wraps)
            after = (batch[-1].cert_record_id, batch[-1].device_id)
        return done

    async def run(self) -> None:
        while not self._wakeup.is_stopping:
            await self._run_round()
            await self._wakeup.wait(self._interval_seconds)

    async def _run_round(self) -> None:
        try:
            done = await self.run_once()
        except DatabaseError as error:
            log.error("wrapping of data keys failed, will retry", error=str(error))
            return
        if done:
            log.info("data keys wrapped", count=done)
