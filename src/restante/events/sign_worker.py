"""A process that signs: keys and work come in by its standard input, tokens go out by its standard output.

It lives exactly as long as the pipe from its server: a server that is gone, even one that was killed, has closed it,
and the process ends in the middle of whatever it does. Keys are held in memory only; nothing is read from files,
arguments or the environment.
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

from restante.events.jws import Sign, sign_with, token

# Polls come first: signing takes what they leave of the machine.
NICENESS = 5
_LENGTH = struct.Struct(">I")


class KeyMessage(msgspec.Struct, frozen=True, tag="key"):
    """From now on there is this key. Not answered."""

    kid: str
    alg: str
    private_key: bytes


class Job(msgspec.Struct, frozen=True, tag="job"):
    """Sign each payload under this header. Answered with Signed or Refused."""

    kid: str
    header: bytes
    payloads: list[bytes]


class Signed(msgspec.Struct, frozen=True, tag="signed"):
    tokens: list[str]
    cpu_seconds: float


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    reason: str


_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[KeyMessage | Job] = msgspec.msgpack.Decoder(KeyMessage | Job)
_replies: msgspec.msgpack.Decoder[Signed | Refused] = msgspec.msgpack.Decoder(Signed | Refused)


def send(pipe: IO[bytes], *messages: KeyMessage | Job | Signed | Refused) -> None:
    for message in messages:
        raw = _encoder.encode(message)
        pipe.write(_LENGTH.pack(len(raw)) + raw)
    pipe.flush()


def receive_reply(pipe: IO[bytes]) -> Signed | Refused:
    """EOFError when the other side is gone."""
    return _replies.decode(_frame(pipe))


def _frame(pipe: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, length)


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    raw = pipe.read(count)
    if len(raw) < count:
        raise EOFError
    return raw


class Worker:
    """What a request does; knows nothing of pipes."""

    def __init__(self) -> None:
        self._keys: dict[str, Sign] = {}

    def reply_to(self, request: KeyMessage | Job) -> Signed | Refused | None:
        if isinstance(request, KeyMessage):
            # A key that cannot be used shows when something is to be signed with it: that has a reply.
            try:
                self._keys[request.kid] = sign_with(request.alg, request.private_key)
            except (ValueError, TypeError):
                self._keys.pop(request.kid, None)
            return None
        sign = self._keys.get(request.kid)
        if sign is None:
            return Refused(f"the key {request.kid} cannot be used")
        started = time.process_time()
        tokens = [token(request.header, payload, sign) for payload in request.payloads]
        return Signed(tokens, time.process_time() - started)


def _read_all(pipe: IO[bytes], requests: "queue.SimpleQueue[KeyMessage | Job]") -> None:
    """Take whatever comes, so that the server never waits to hand over work; end the process with the pipe."""
    while True:
        try:
            requests.put(_requests.decode(_frame(pipe)))
        except BaseException:
            # Not sys.exit, which would end this thread only.
            os._exit(0)


def main() -> None:
    os.nice(NICENESS)
    # A core file would have the keys in it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests: queue.SimpleQueue[KeyMessage | Job] = queue.SimpleQueue()
    threading.Thread(target=_read_all, args=(sys.stdin.buffer, requests), daemon=True).start()
    worker = Worker()
    while True:
        reply = worker.reply_to(requests.get())
        if reply is not None:
            try:
                send(sys.stdout.buffer, reply)
            except OSError:
                os._exit(0)


if __name__ == "__main__":
    main()
