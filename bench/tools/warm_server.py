"""A server like `restante serve` whose caches of verified tokens and log tails are filled before it listens.

The benchmark measures the state after a million first polls, so their result is put into memory directly. On SIGUSR1
the server publishes one signal to every device with a token, in one transaction, and writes the time at which the poll
handles the commit (CLOCK_MONOTONIC) to the file `commit-time` in its data folder.

Arguments: data folder, port, token file (one token per line, for device 1, 2, …), number of devices in memory; with
TLS also the files of certificate and key.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path

from restante.database.connection import Connection
from restante.delivery.log.signals import Signal
from restante.identity.callers import DeviceCaller
from restante.server import lifecycle
from restante.server.app import Node, opened
from restante.server.config.setting_types import Address
from restante.server.config.settings import Settings
from restante.server.monitoring import logs


def warm(node: Node, tokens: list[bytes], known: int) -> None:
    until = time.time() + 86_000
    for device_id, token in enumerate(tokens, 1):
        node.identity.device_tokens.remember(token, DeviceCaller(device_id, 1, until), until)
    for device_id in range(1, known + 1):
        node.updates.poll.waiters.advance(device_id, b"0-0")


def publish_to_all(node: Node, devices: int) -> None:
    def publish(conn: Connection) -> None:
        for device_id in range(1, devices + 1):
            node.outbox.append(conn, device_id, [Signal("bench.wake", conn.now_ms, {"n": device_id})])

    node.database.submit(publish)


def main() -> None:
    data, port, token_file, known = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    tokens = token_file.read_bytes().split()
    certificate, key = (Path(name) for name in sys.argv[5:7]) if len(sys.argv) > 5 else (None, None)
    settings = Settings(
        tls_certificate=certificate,
        tls_key=key,
        data=data,
        listen=Address("127.0.0.1", port),
        access_token_seconds=86_400,
        poll_rate_per_second=100_000.0,
        poll_burst=1_000_000,
        log_level="error",
    )
    logs.configure(settings.log_format, settings.log_level)
    with opened(settings) as node:
        waiters = node.updates.poll.waiters
        advance = waiters.advance

        def advance_first(device_id: int, tail: bytes, follows: bytes | None = None) -> None:
            # Write the time once, then restore the original method.
            (data / "commit-time").write_text(repr(time.monotonic()))
            setattr(waiters, "advance", advance)  # noqa: B010
            advance(device_id, tail, follows)

        start = node.identity.device_tokens.start

        async def start_warm() -> None:
            # Fill the caches after the start, which clears them.
            await start()
            warm(node, tokens, known)
            setattr(waiters, "advance", advance_first)  # noqa: B010
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, publish_to_all, node, len(tokens))

        setattr(node.identity.device_tokens, "start", start_warm)  # noqa: B010
        with lifecycle.listening(settings.listen) as sock:
            lifecycle.serve(node, sock)


if __name__ == "__main__":
    main()
