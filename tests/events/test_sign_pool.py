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

from restante.events import event_keys, sign_pool
from restante.events.event_keys import NewKey, SealedEventKey
from restante.events.jws import Signature, shared_signals_header
from restante.events.sign_pool import SigningFailed, SignPool
from restante.events.sign_worker import Job, KeyMessage, Signed
from tests.events.publishers import MASTER

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def made() -> NewKey:
    return event_keys.make(MASTER, "EdDSA")


@pytest.fixture
def pool() -> Iterator[SignPool]:
    pool = SignPool(2)
    yield pool
    pool.close()


def key_of(made: NewKey) -> KeyMessage:
    private = event_keys.opened(MASTER, SealedEventKey(made.kid, made.alg, made.sealed_key))
    return KeyMessage(made.kid, made.alg, private)


def job_of(made: NewKey, *payloads: bytes) -> Job:
    return Job(made.kid, shared_signals_header(Signature(made.alg, made.kid, 1)), list(payloads))


def payloads_of(made: NewKey, signed: Signed) -> list[bytes]:
    key = jwt.PyJWK(json.loads(made.public_jwk)).key
    return [jwt.PyJWS().decode(token, key, algorithms=[made.alg]) for token in signed.tokens]


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_no_process_runs_before_there_is_work(pool: SignPool, made: NewKey) -> None:
    assert pool.pids == []
    pool.submit(job_of(made, b"{}"), key_of(made)).result(PATIENCE_SECONDS)
    assert pool.pids


def test_every_job_is_answered_with_its_own_tokens(pool: SignPool, made: NewKey) -> None:
    payloads = [b'{"n":%d}' % number for number in range(50)]
    futures = [pool.submit(job_of(made, payload), key_of(made)) for payload in payloads]
    assert [payloads_of(made, future.result(PATIENCE_SECONDS)) for future in futures] == [[each] for each in payloads]


def test_large_jobs_do_not_block_each_other(pool: SignPool, made: NewKey) -> None:
    """More than a pipe holds, in both directions at once."""
    payload = json.dumps({"text": "x" * 200_000}).encode()
    futures = [pool.submit(job_of(made, payload, payload), key_of(made)) for _ in range(12)]
    for future in futures:
        assert len(future.result(PATIENCE_SECONDS).tokens) == 2


def test_a_killed_process_is_replaced_and_its_work_done_again(pool: SignPool, made: NewKey) -> None:
    pool.submit(job_of(made, b"{}"), key_of(made)).result(PATIENCE_SECONDS)
    killed = pool.pids
    for pid in killed:
        # Stopped first, so that the work is with it when it dies.
        os.kill(pid, signal.SIGSTOP)
    futures = [pool.submit(job_of(made, b"{}"), key_of(made)) for _ in range(8)]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    for future in futures:
        assert payloads_of(made, future.result(PATIENCE_SECONDS)) == [b"{}"]
    assert not set(killed) & set(pool.pids)


def test_work_that_every_process_dies_of_is_given_up(made: NewKey) -> None:
    pool = SignPool(1, [sys.executable, "-c", "import sys; sys.stdin.buffer.read(1); sys.exit(3)"])
    try:
        with pytest.raises(SigningFailed, match="died"):
            pool.submit(job_of(made, b"{}"), key_of(made)).result(PATIENCE_SECONDS)
    finally:
        pool.close()


def test_a_process_that_cannot_be_started_is_an_error_and_no_end(made: NewKey) -> None:
    pool = SignPool(1, ["/nonexistent/python"])
    try:
        for _ in range(2):
            with pytest.raises(SigningFailed):
                pool.submit(job_of(made, b"{}"), key_of(made)).result(PATIENCE_SECONDS)
    finally:
        pool.close()


def test_a_key_that_is_no_good_fails_its_job_only(pool: SignPool, made: NewKey) -> None:
    bad = pool.submit(Job("bad", b"e30", [b"{}"]), KeyMessage("bad", "PS256", b"x"))
    good = pool.submit(job_of(made, b"{}"), key_of(made))
    with pytest.raises(SigningFailed, match="cannot be used"):
        bad.result(PATIENCE_SECONDS)
    assert payloads_of(made, good.result(PATIENCE_SECONDS)) == [b"{}"]


def test_a_cancelled_job_is_not_done(made: NewKey, pool: SignPool) -> None:
    futures = [pool.submit(job_of(made, b"{}"), key_of(made)) for _ in range(20)]
    for future in futures[10:]:
        future.cancel()
    for future in futures[:10]:
        future.result(PATIENCE_SECONDS)
    assert payloads_of(made, pool.submit(job_of(made, b"{}"), key_of(made)).result(PATIENCE_SECONDS)) == [b"{}"]


def test_closing_leaves_no_process_and_answers_everybody(made: NewKey) -> None:
    rsa = event_keys.make(MASTER, "PS256")
    pool = SignPool(2)
    pool.submit(job_of(made, b"{}"), key_of(made)).result(PATIENCE_SECONDS)
    futures = [pool.submit(job_of(rsa, *[b"{}"] * 500), key_of(rsa)) for _ in range(20)]
    pids = pool.pids
    pool.close()
    assert pool.pids == []
    assert not any(is_running(pid) for pid in pids)
    for future in futures:
        with suppress(SigningFailed):
            future.result(0)
    with pytest.raises(SigningFailed):
        pool.submit(job_of(made, b"{}"), key_of(made)).result(0)


def test_processes_die_with_a_server_that_is_killed(made: NewKey) -> None:
    """The pool in a process of its own, which is killed while its workers sign."""
    rsa = event_keys.make(MASTER, "PS256")
    code = (
        "import sys, msgspec\n"
        "from restante.events.sign_pool import SignPool\n"
        "from restante.events.sign_worker import Job, KeyMessage\n"
        "pool = SignPool(2)\n"
        "key = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=KeyMessage)\n"
        "futures = [pool.submit(Job(key.kid, b'e30', [b'{}'] * 1000), key) for _ in range(100)]\n"
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


def test_no_setting_of_ours_reaches_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_MASTER_KEY", "secret")
    assert "RESTANTE_MASTER_KEY" not in sign_pool.environment()
    assert sign_pool.environment()["PATH"] == os.environ["PATH"]


def test_one_process_for_each_core() -> None:
    assert SignPool().size == sign_pool.cores() >= 1
