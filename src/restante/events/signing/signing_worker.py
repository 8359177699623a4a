"""A signing process: it reads keys and jobs from standard input and writes tokens to standard output.

The process runs as long as the pipe from its server is open. When the server ends, even by SIGKILL, the pipe closes and
the process exits at once. Keys are in memory only; nothing is read from files, arguments or the environment.
"""

import os
import queue
import resource
import struct
import sys
import threading
import time
from typing import IO

import msgspec

from restante.events.signing.jws import Sign, compact_token, signing_function

# Polls have priority: signing uses the CPU time that they leave.
NICENESS = 5
_LENGTH = struct.Struct(">I")


class KeyMessage(msgspec.Struct, frozen=True, tag="key"):
    """Adds a key. Has no reply."""

    kid: str
    alg: str
    private_key: bytes


class SigningJob(msgspec.Struct, frozen=True, tag="job"):
    """Sign each payload with this header. The reply is SignedTokens or JobRefused."""

    kid: str
    header: bytes
    payloads: list[bytes]


class SignedTokens(msgspec.Struct, frozen=True, tag="signed"):
    tokens: list[str]
    cpu_seconds: float


class JobRefused(msgspec.Struct, frozen=True, tag="refused"):
    reason: str


_encoder = msgspec.msgpack.Encoder()
_request_decoder: msgspec.msgpack.Decoder[KeyMessage | SigningJob] = msgspec.msgpack.Decoder(KeyMessage | SigningJob)
_reply_decoder: msgspec.msgpack.Decoder[SignedTokens | JobRefused] = msgspec.msgpack.Decoder(SignedTokens | JobRefused)


def send(pipe: IO[bytes], *messages: KeyMessage | SigningJob | SignedTokens | JobRefused) -> None:
    for message in messages:
        raw = _encoder.encode(message)
        pipe.write(_LENGTH.pack(len(raw)) + raw)
    pipe.flush()


def receive_reply(pipe: IO[bytes]) -> SignedTokens | JobRefused:
    """Read one reply; raise EOFError if the other side is gone."""
    return _reply_decoder.decode(_read_frame(pipe))


def _read_frame(pipe: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_read_exactly(pipe, _LENGTH.size))
    return _read_exactly(pipe, length)


def _read_exactly(pipe: IO[bytes], count: int) -> bytes:
    raw = pipe.read(count)
    if len(raw) < count:
        raise EOFError
    return raw


class JobSigner:
    """Holds the keys and runs the requests; does not know about pipes."""

    def __init__(self) -> None:
        self._keys: dict[str, Sign] = {}

    def reply_to(self, request: KeyMessage | SigningJob) -> SignedTokens | JobRefused | None:
        if isinstance(request, KeyMessage):
            # An unusable key is reported by the first job that needs it, because jobs have replies.
            try:
                self._keys[request.kid] = signing_function(request.alg, request.private_key)
            except (ValueError, TypeError):
                self._keys.pop(request.kid, None)
            return None
        sign = self._keys.get(request.kid)
        if sign is None:
            return JobRefused(f"the key {request.kid} cannot be used")
        started = time.process_time()
        tokens = [compact_token(request.header, payload, sign) for payload in request.payloads]
        return SignedTokens(tokens, time.process_time() - started)


def _read_requests(pipe: IO[bytes], requests: "queue.SimpleQueue[KeyMessage | SigningJob]") -> None:
    """Read all requests, so that the server never blocks on the pipe; exit when the pipe closes."""
    while True:
        try:
            requests.put(_request_decoder.decode(_read_frame(pipe)))
        except BaseException:
            # sys.exit would end this thread only.
            os._exit(0)


def main() -> None:
    os.nice(NICENESS)
    # A core file would contain the keys.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests: queue.SimpleQueue[KeyMessage | SigningJob] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    signer = JobSigner()
    while True:
        reply = signer.reply_to(requests.get())
        if reply is not None:
            try:
                send(sys.stdout.buffer, reply)
            except OSError:
                os._exit(0)


if __name__ == "__main__":
    main()
