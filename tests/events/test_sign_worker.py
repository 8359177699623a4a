import io
import json
import subprocess
import sys

import jwt
import pytest

from restante.events import event_keys
from restante.events.event_keys import NewKey, SealedEventKey
from restante.events.jws import Signature, shared_signals_header
from restante.events.sign_worker import Job, KeyMessage, Refused, Signed, Worker, receive_reply, send
from tests.events.publishers import MASTER

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def made() -> NewKey:
    return event_keys.make(MASTER, "EdDSA")


def key_message(made: NewKey) -> KeyMessage:
    private = event_keys.opened(MASTER, SealedEventKey(made.kid, made.alg, made.sealed_key))
    return KeyMessage(made.kid, made.alg, private)


def job_of(made: NewKey, *payloads: bytes) -> Job:
    return Job(made.kid, shared_signals_header(Signature(made.alg, made.kid, 1)), list(payloads))


def payloads_of(made: NewKey, reply: Signed | Refused | None) -> list[bytes]:
    assert isinstance(reply, Signed)
    key = jwt.PyJWK(json.loads(made.public_jwk)).key
    return [jwt.PyJWS().decode(token, key, algorithms=[made.alg]) for token in reply.tokens]


def test_work_is_signed_in_its_order(made: NewKey) -> None:
    worker = Worker()
    assert worker.reply_to(key_message(made)) is None
    reply = worker.reply_to(job_of(made, b"{}", b'{"a":1}'))
    assert payloads_of(made, reply) == [b"{}", b'{"a":1}']


def test_a_key_that_is_not_there_or_no_good_is_said(made: NewKey) -> None:
    worker = Worker()
    assert isinstance(worker.reply_to(job_of(made, b"{}")), Refused)
    worker.reply_to(KeyMessage(made.kid, made.alg, b"no key"))
    worker.reply_to(KeyMessage(made.kid, "PS256", key_message(made).private_key))
    reply = worker.reply_to(job_of(made, b"{}"))
    assert reply == Refused(f"the key {made.kid} cannot be used")


def test_a_pipe_that_ends_within_a_message_is_an_end() -> None:
    pipe = io.BytesIO()
    send(pipe, Refused("x"))
    whole = pipe.getvalue()
    assert receive_reply(io.BytesIO(whole)) == Refused("x")
    for length in range(len(whole)):
        with pytest.raises(EOFError):
            receive_reply(io.BytesIO(whole[:length]))


def test_the_process_signs_and_ends_with_its_pipe(made: NewKey) -> None:
    command = [sys.executable, "-m", "restante.events.sign_worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, key_message(made), job_of(made, b'{"a":1}'))
        assert payloads_of(made, receive_reply(process.stdout)) == [b'{"a":1}']
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


def test_the_process_ends_in_the_middle_of_its_work() -> None:
    """A server that is killed closes the pipe, and nobody is left to sign for."""
    rsa = event_keys.make(MASTER, "PS256")
    command = [sys.executable, "-m", "restante.events.sign_worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        # Minutes of work.
        send(process.stdin, key_message(rsa), *(job_of(rsa, *[b"{}"] * 1000) for _ in range(1000)))
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0
