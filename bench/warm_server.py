"""A server as `restante serve` runs it, whose memory of verified tokens and tails is filled before it listens.

What a million first polls would have taught it is put there directly: the benchmark measures what comes after.
On SIGUSR1 it publishes one signal to every device with a token, in one transaction, and writes the moment at which
the commit was heard (CLOCK_MONOTONIC) to `heard` in its data folder.

Arguments: data folder, port, token file (one token a line, for device 1, 2, …), number of devices known.
"""

import asyncio
import signal
import sys
import time
from pathlib import Path

from restante.database.connection import Connection
from restante.delivery.log import Published
from restante.delivery.signals import Signal
from restante.identity.callers import DeviceCaller
from restante.server import lifecycle, logs
from restante.server.app import Node, opened
from restante.server.setting_kinds import Address
from restante.server.settings import Settings


def warm(node: Node, tokens: list[bytes], known: int) -> None:
    until = time.time() + 86_000
    for device_id, token in enumerate(tokens, 1):
        node.tokens.remember(token, DeviceCaller(device_id, 1, until))
    for device_id in range(1, known + 1):
        node.poll.bell.hear(device_id, b"0-0")


def publish_to_all(node: Node, devices: int) -> None:
    def publish(conn: Connection) -> None:
        for device_id in range(1, devices + 1):
            node.append(conn, device_id, [Signal("bench.wake", conn.now_ms, {"n": device_id})])

    node.database.submit(publish)


def main() -> None:
    data, port, token_file, known = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    tokens = token_file.read_bytes().split()
    settings = Settings(
        data=data,
        listen=Address("127.0.0.1", port),
        access_token_seconds=86_400,
        poll_rate_per_second=100_000.0,
        poll_burst=1_000_000,
        log_level="error",
    )
    logs.configure(settings.log_format, settings.log_level)
    with opened(settings) as node:
        hear = node.poll.hear

        def heard(published: Published) -> None:
            # Stamped once, and out of the way for all that follow.
            (data / "heard").write_text(repr(time.monotonic()))
            setattr(node.poll, "hear", hear)  # noqa: B010
            hear(published)

        start = node.tokens.start

        async def start_warm() -> None:
            # The memory is filled after the start, which begins by forgetting everything.
            await start()
            warm(node, tokens, known)
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, publish_to_all, node, len(tokens))

        # The moment is stamped and the memory filled; then all goes its usual way.
        setattr(node.poll, "hear", heard)  # noqa: B010
        setattr(node.tokens, "start", start_warm)  # noqa: B010
        with lifecycle.listening(settings.listen) as sock:
            lifecycle.serve(node, sock)


if __name__ == "__main__":
    main()
