"""How many event tokens a second are signed and stored, against a bare loop of the same library on the same cores.

The reference is as many processes as there are cores, at the same priority, that do nothing but sign a token's bytes
with the same kind of key. Both are run in turn several times, as a busy machine favours now the one and now the other;
the ratio is the median of the rounds'. Beside it the CPU time of a token, everything included, which depends less on
what else the machine does.
"""

import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.events import clients
from restante.events.clients import Registration
from restante.events.publishing import EventWish, publish
from restante.events.sign_pool import SignPool, cores
from restante.events.sign_worker import NICENESS
from restante.events.signer import Signer, SignerOptions
from restante.identity.master_key import MasterKey
from restante.server import logs

TOKENS = 6000
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


class Round(NamedTuple):
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
    ready = spawned.Barrier(cores() + 1)
    workers = [spawned.Process(target=_sign_bare, args=(TOKENS // cores(), ready)) for _ in range(cores())]
    for worker in workers:
        worker.start()
    ready.wait()
    before = sum(_cpu_seconds(worker.pid or 0) for worker in workers)
    started = time.perf_counter()
    ready.wait()
    seconds = time.perf_counter() - started
    spent = sum(_cpu_seconds(worker.pid or 0) for worker in workers) - before
    for worker in workers:
        worker.join()
    count = TOKENS // cores() * cores()
    return Round(count / seconds, spent / count * 1000)


async def ours(database: Database, signer: Signer, pool: SignPool) -> Round:
    await database.write(_publish_many, TOKENS)
    before = sum(map(_cpu_seconds, [os.getpid(), *pool.pids]))
    started = time.perf_counter()
    signed = await signer.run_once()
    seconds = time.perf_counter() - started
    spent = sum(map(_cpu_seconds, [os.getpid(), *pool.pids])) - before
    return Round(signed / seconds, spent / signed * 1000)


def _publish_many(conn: Connection, count: int) -> None:
    for _ in range(count):
        publish(conn, EventWish(client_id="bench", sub=SUB, events=EVENTS))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def signing() -> dict[str, float]:
    logs.configure("console", "error")
    with tempfile.TemporaryDirectory() as folder:
        engine = SqliteEngine(Path(folder) / "restante.db")
        migrate(engine)
        database = Database(engine)
        try:
            return asyncio.run(_compared(database))
        finally:
            database.close()


async def _compared(database: Database) -> dict[str, float]:
    await database.write(clients.add, Registration("bench", "client_secret_basic", "bench"))
    pool = SignPool()
    signer = Signer(database, MasterKey(bytes(32)), pool, SignerOptions())
    try:
        # Keys are made and processes started before anything is measured.
        await database.write(_publish_many, 100)
        await signer.run_once()
        pairs = [(await asyncio.to_thread(bare), await ours(database, signer, pool)) for _ in range(ROUNDS)]
    finally:
        pool.close()
    references, found = zip(*pairs, strict=True)
    return {
        "bare loop of the library, signatures/s": statistics.median(each.tokens_per_second for each in references),
        "signed and stored, tokens/s": statistics.median(each.tokens_per_second for each in found),
        "ratio of the rounds, median": statistics.median(
            mine.tokens_per_second / theirs.tokens_per_second for theirs, mine in pairs
        ),
        "bare loop, CPU ms a signature": statistics.median(each.cpu_milliseconds for each in references),
        "signed and stored, CPU ms a token": statistics.median(each.cpu_milliseconds for each in found),
        "ratio of CPU times, median": statistics.median(
            theirs.cpu_milliseconds / mine.cpu_milliseconds for theirs, mine in pairs
        ),
    }
