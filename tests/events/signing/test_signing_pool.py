import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import jwt
import msgspec
import pytest

from restante.events.signing import event_keys, signing_pool
from restante.events.signing.event_keys import NewEventKey, SealedEventKey
from restante.events.signing.jws import SigningInfo, shared_signals_header
from restante.events.signing.signing_pool import SigningFailed, SigningPool
from restante.events.signing.signing_worker import KeyMessage, SignedTokens, SigningJob
from tests.events.publish_fixture import MASTER

TIMEOUT_SECONDS = 60.0


@pytest.fixture(scope="module")
def new_key() -> NewEventKey:
    return event_keys.generate(MASTER, "EdDSA")


@pytest.fixture
def pool() -> Iterator[SigningPool]:
    pool = SigningPool(2)
    yield pool
    pool.close()


def key_of(new_key: NewEventKey) -> KeyMessage:
    private = event_keys.open_private_key(MASTER, SealedEventKey(new_key.kid, new_key.alg, new_key.sealed_key))
    return KeyMessage(new_key.kid, new_key.alg, private)


def job_of(new_key: NewEventKey, *payloads: bytes) -> SigningJob:
    return SigningJob(new_key.kid, shared_signals_header(SigningInfo(new_key.alg, new_key.kid, 1)), list(payloads))


def payloads_of(new_key: NewEventKey, signed: SignedTokens) -> list[bytes]:
    key = jwt.PyJWK(json.loads(new_key.public_jwk)).key
    return [jwt.PyJWS().decode(token, key, algorithms=[new_key.alg]) for token in signed.tokens]


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_first_job_starts_the_processes(pool: SigningPool, new_key: NewEventKey) -> None:
    assert pool.pids == []
    pool.submit(job_of(new_key, b"{}"), key_of(new_key)).result(TIMEOUT_SECONDS)
    assert pool.pids


def test_every_job_gets_its_own_tokens(pool: SigningPool, new_key: NewEventKey) -> None:
    payloads = [b'{"n":%d}' % number for number in range(50)]
    futures = [pool.submit(job_of(new_key, payload), key_of(new_key)) for payload in payloads]
    assert [payloads_of(new_key, future.result(TIMEOUT_SECONDS)) for future in futures] == [[each] for each in payloads]


def test_large_jobs_do_not_block_each_other(pool: SigningPool, new_key: NewEventKey) -> None:
    """The data exceeds the pipe buffers in both directions."""
    payload = json.dumps({"text": "x" * 200_000}).encode()
    futures = [pool.submit(job_of(new_key, payload, payload), key_of(new_key)) for _ in range(12)]
    for future in futures:
        assert len(future.result(TIMEOUT_SECONDS).tokens) == 2


def test_killed_process_is_replaced_and_its_jobs_run_again(pool: SigningPool, new_key: NewEventKey) -> None:
    pool.submit(job_of(new_key, b"{}"), key_of(new_key)).result(TIMEOUT_SECONDS)
    killed = pool.pids
    for pid in killed:
        # Stop it first, so that it holds jobs when it dies.
        os.kill(pid, signal.SIGSTOP)
    futures = [pool.submit(job_of(new_key, b"{}"), key_of(new_key)) for _ in range(8)]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    for future in futures:
        assert payloads_of(new_key, future.result(TIMEOUT_SECONDS)) == [b"{}"]
    assert not set(killed) & set(pool.pids)


def test_job_that_kills_every_process_fails(new_key: NewEventKey) -> None:
    pool = SigningPool(1, [sys.executable, "-c", "import sys; sys.stdin.buffer.read(1); sys.exit(3)"])
    try:
        with pytest.raises(SigningFailed, match="died"):
            pool.submit(job_of(new_key, b"{}"), key_of(new_key)).result(TIMEOUT_SECONDS)
    finally:
        pool.close()


def test_process_that_cannot_start_fails_each_job(new_key: NewEventKey) -> None:
    pool = SigningPool(1, ["/nonexistent/python"])
    try:
        for _ in range(2):
            with pytest.raises(SigningFailed):
                pool.submit(job_of(new_key, b"{}"), key_of(new_key)).result(TIMEOUT_SECONDS)
    finally:
        pool.close()


def test_unusable_key_fails_only_its_job(pool: SigningPool, new_key: NewEventKey) -> None:
    bad = pool.submit(SigningJob("bad", b"e30", [b"{}"]), KeyMessage("bad", "PS256", b"x"))
    good = pool.submit(job_of(new_key, b"{}"), key_of(new_key))
    with pytest.raises(SigningFailed, match="cannot be used"):
        bad.result(TIMEOUT_SECONDS)
    assert payloads_of(new_key, good.result(TIMEOUT_SECONDS)) == [b"{}"]


def test_cancelled_jobs_are_skipped(new_key: NewEventKey, pool: SigningPool) -> None:
    futures = [pool.submit(job_of(new_key, b"{}"), key_of(new_key)) for _ in range(20)]
    for future in futures[10:]:
        future.cancel()
    for future in futures[:10]:
        future.result(TIMEOUT_SECONDS)
    assert payloads_of(new_key, pool.submit(job_of(new_key, b"{}"), key_of(new_key)).result(TIMEOUT_SECONDS)) == [b"{}"]


def test_closing_ends_all_processes_and_resolves_all_futures(new_key: NewEventKey) -> None:
    rsa = event_keys.generate(MASTER, "PS256")
    pool = SigningPool(2)
    pool.submit(job_of(new_key, b"{}"), key_of(new_key)).result(TIMEOUT_SECONDS)
    futures = [pool.submit(job_of(rsa, *[b"{}"] * 500), key_of(rsa)) for _ in range(20)]
    pids = pool.pids
    pool.close()
    assert pool.pids == []
    assert not any(is_running(pid) for pid in pids)
    for future in futures:
        with suppress(SigningFailed):
            future.result(0)
    with pytest.raises(SigningFailed):
        pool.submit(job_of(new_key, b"{}"), key_of(new_key)).result(0)


def test_processes_die_with_a_killed_server(new_key: NewEventKey) -> None:
    """The pool runs in a child process, which is killed while its workers sign."""
    rsa = event_keys.generate(MASTER, "PS256")
    code = (
        "import sys, msgspec\n"
        "from restante.events.signing.signing_pool import SigningPool\n"
        "from restante.events.signing.signing_worker import KeyMessage, SigningJob\n"
        "pool = SigningPool(2)\n"
        "key = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=KeyMessage)\n"
        "futures = [pool.submit(SigningJob(key.kid, b'e30', [b'{}'] * 1000), key) for _ in range(100)]\n"
        "futures[0].result()\n"
        "print(*pool.pids, flush=True)\n"
        "futures[-1].result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(msgspec.msgpack.encode(key_of(rsa)))
        server.stdin.close()
        pids = [int(pid) for pid in server.stdout.readline().split()]
        assert pids
        server.kill()
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_settings_do_not_reach_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_MASTER_KEY", "secret")
    assert "RESTANTE_MASTER_KEY" not in signing_pool.worker_environment()
    assert signing_pool.worker_environment()["PATH"] == os.environ["PATH"]


def test_default_size_is_one_process_per_core() -> None:
    assert SigningPool().size == signing_pool.core_count() >= 1
