"""How many event tokens per second are signed and stored, compared with a bare loop of the same library.

The reference is one process per core, at the same priority, that only signs the bytes of a token with the same kind of
key. Both run in turn several times, because the load of the machine varies; the ratio is the median of the rounds. The
CPU time of a token is measured too, because it depends less on the load of the machine. The event loop is the server's,
and garbage is collected as rarely as there.
"""

import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from bench.tools.processes import cpu_seconds
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from restante.events.publishing.publishing import EventRequest, publish
from restante.events.signing.signer import Signer
from restante.events.signing.signing_pool import SigningPool, core_count
from restante.events.signing.signing_worker import NICENESS
from restante.identity.master_key import MasterKey
from restante.server.config.options import signing_options
from restante.server.config.settings import Settings
from restante.server.lifecycle import collect_garbage_rarely
from restante.server.monitoring import logs

# Several seconds of work: the beginning and the end, when some processes have none, are a small part of it.
TOKENS = 36_000
ROUNDS = 5
SUB = "https://bank.example/open-banking/v4.0/pisp/domestic-payments/pmt-7290-003"
EVENTS = {
    "urn:uk:org:openbanking:events:resource-update": {
        "subject": {
            "subject_type": "http://openbanking.org.uk/rid_http://openbanking.org.uk/rty",
            "http://openbanking.org.uk/rid": "pmt-7290-003",
            "http://openbanking.org.uk/rty": "domestic-payment",
            "http://openbanking.org.uk/rlk": [{"version": "v4.0", "link": SUB}],
        }
    }
}


@dataclass(frozen=True, slots=True)
class Round:
    tokens_per_second: float
    cpu_milliseconds: float


def _sign_bare(count: int, ready: "multiprocessing.synchronize.Barrier") -> None:
    os.nice(NICENESS)
    key = rsa.generate_private_key(65537, 2048)
    scheme, message = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH), b"x" * 1000
    ready.wait()
    for _ in range(count):
        key.sign(message, scheme, SHA256())
    ready.wait()


def bare() -> Round:
    spawned = multiprocessing.get_context("spawn")
    ready = spawned.Barrier(core_count() + 1)
    workers = [spawned.Process(target=_sign_bare, args=(TOKENS // core_count(), ready)) for _ in range(core_count())]
    for worker in workers:
        worker.start()
    ready.wait()
    before = cpu_seconds(worker.pid or 0 for worker in workers)
    started = time.perf_counter()
    ready.wait()
    seconds = time.perf_counter() - started
    spent = cpu_seconds(worker.pid or 0 for worker in workers) - before
    for worker in workers:
        worker.join()
    count = TOKENS // core_count() * core_count()
    return Round(count / seconds, spent / count * 1000)


async def signed_and_stored(database: Database, signer: Signer, pool: SigningPool) -> Round:
    await database.write(_publish_many, TOKENS)
    before = cpu_seconds([os.getpid(), *pool.pids])
    started = time.perf_counter()
    signed = await signer.run_once()
    seconds = time.perf_counter() - started
    spent = cpu_seconds([os.getpid(), *pool.pids]) - before
    return Round(signed / seconds, spent / signed * 1000)


def _publish_many(conn: Connection, count: int) -> None:
    for _ in range(count):
        publish(conn, EventRequest(client_id="bench", sub=SUB, events=EVENTS))


def signing() -> dict[str, float]:
    logs.configure("console", "error")
    collect_garbage_rarely()
    with tempfile.TemporaryDirectory() as folder:
        engine = SqliteEngine(Path(folder) / "restante.db")
        migrate(engine)
        database = Database(engine)
        try:
            return uvloop.run(_compare(database))
        finally:
            database.close()


async def _compare(database: Database) -> dict[str, float]:
    await database.write(clients.add, ClientRegistration("bench", "client_secret_basic", "bench"))
    pool = SigningPool()
    signer = Signer(database, MasterKey(bytes(32)), pool, signing_options(Settings()).signer)
    try:
        # Create keys and start processes before the measurement.
        await database.write(_publish_many, 100)
        await signer.run_once()
        pairs = [
            (await asyncio.to_thread(bare), await signed_and_stored(database, signer, pool)) for _ in range(ROUNDS)
        ]
    finally:
        pool.close()
    references, results = zip(*pairs, strict=True)
    return {
        "bare loop of the library, signatures/s": statistics.median(each.tokens_per_second for each in references),
        "signed and stored, tokens/s": statistics.median(each.tokens_per_second for each in results),
        "ratio of the rounds, median": statistics.median(
            result.tokens_per_second / reference.tokens_per_second for reference, result in pairs
        ),
        "bare loop, CPU ms a signature": statistics.median(each.cpu_milliseconds for each in references),
        "signed and stored, CPU ms a token": statistics.median(each.cpu_milliseconds for each in results),
        "ratio of CPU times, median": statistics.median(
            reference.cpu_milliseconds / result.cpu_milliseconds for reference, result in pairs
        ),
    }
