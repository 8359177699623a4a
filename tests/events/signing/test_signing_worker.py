import io
import json
import subprocess
import sys

import jwt
import pytest

from restante.events.signing import event_keys
from restante.events.signing.event_keys import NewEventKey, SealedEventKey
from restante.events.signing.jws import SigningInfo, shared_signals_header
from restante.events.signing.signing_worker import (
    JobRefused,
    JobSigner,
    KeyMessage,
    SignedTokens,
    SigningJob,
    receive_reply,
    send,
)
from tests.events.publish_fixture import MASTER

TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module")
def new_key() -> NewEventKey:
    return event_keys.generate(MASTER, "EdDSA")


def key_message(new_key: NewEventKey) -> KeyMessage:
    private = event_keys.open_private_key(MASTER, SealedEventKey(new_key.kid, new_key.alg, new_key.sealed_key))
    return KeyMessage(new_key.kid, new_key.alg, private)


def job_of(new_key: NewEventKey, *payloads: bytes) -> SigningJob:
    return SigningJob(new_key.kid, shared_signals_header(SigningInfo(new_key.alg, new_key.kid, 1)), list(payloads))


def payloads_of(new_key: NewEventKey, reply: SignedTokens | JobRefused | None) -> list[bytes]:
    assert isinstance(reply, SignedTokens)
    key = jwt.PyJWK(json.loads(new_key.public_jwk)).key
    return [jwt.PyJWS().decode(token, key, algorithms=[new_key.alg]) for token in reply.tokens]


def test_payloads_are_signed_in_order(new_key: NewEventKey) -> None:
    signer = JobSigner()
    assert signer.reply_to(key_message(new_key)) is None
    reply = signer.reply_to(job_of(new_key, b"{}", b'{"a":1}'))
    assert payloads_of(new_key, reply) == [b"{}", b'{"a":1}']


def test_missing_or_unusable_key_refuses_the_job(new_key: NewEventKey) -> None:
    signer = JobSigner()
    assert isinstance(signer.reply_to(job_of(new_key, b"{}")), JobRefused)
    signer.reply_to(KeyMessage(new_key.kid, new_key.alg, b"no key"))
    signer.reply_to(KeyMessage(new_key.kid, "PS256", key_message(new_key).private_key))
    reply = signer.reply_to(job_of(new_key, b"{}"))
    assert reply == JobRefused(f"the key {new_key.kid} cannot be used")


def test_truncated_message_raises_eof() -> None:
    pipe = io.BytesIO()
    send(pipe, JobRefused("x"))
    whole = pipe.getvalue()
    assert receive_reply(io.BytesIO(whole)) == JobRefused("x")
    for length in range(len(whole)):
        with pytest.raises(EOFError):
            receive_reply(io.BytesIO(whole[:length]))


def test_process_signs_and_exits_when_its_pipe_closes(new_key: NewEventKey) -> None:
    command = [sys.executable, "-m", "restante.events.signing.signing_worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        send(process.stdin, key_message(new_key), job_of(new_key, b'{"a":1}'))
        assert payloads_of(new_key, receive_reply(process.stdout)) == [b'{"a":1}']
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0


def test_process_exits_in_the_middle_of_its_jobs() -> None:
    """A killed server closes the pipe; its jobs have no reader any more."""
    rsa = event_keys.generate(MASTER, "PS256")
    command = [sys.executable, "-m", "restante.events.signing.signing_worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        # Minutes of work.
        send(process.stdin, key_message(rsa), *(job_of(rsa, *[b"{}"] * 1000) for _ in range(1000)))
        process.stdin.close()
        assert process.wait(TIMEOUT_SECONDS) == 0
