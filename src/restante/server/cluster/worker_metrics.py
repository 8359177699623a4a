"""The metrics of all workers in one response.

A scrape reaches any one of the workers. That worker reads the metrics of the others from Unix sockets in a folder that
the parent made, and returns all of them with a label `worker`. A worker that does not respond is reported as not up.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RESPONSE_SECONDS = 2.0
UP = "restante_worker_up"
_UP_HEAD = [f"# HELP {UP} Whether the worker responded.", f"# TYPE {UP} gauge"]


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """The number of this worker, the number of workers, and the folder of their sockets."""

    folder: Path
    number: int
    count: int

    def socket(self, number: int) -> str:
        return str(self.folder / f"{number}.sock")


class WorkerMetrics:
    def __init__(self, address: WorkerAddress) -> None:
        self.address = address

    @asynccontextmanager
    async def serving(self, render: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
        """Serve this worker's own metrics to the other workers."""

        async def respond(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                writer.write(await render())
                await writer.drain()
            writer.close()

        # A worker that was killed has left its socket behind.
        Path(self.address.socket(self.address.number)).unlink(missing_ok=True)
        server = await asyncio.start_unix_server(respond, self.address.socket(self.address.number))
        try:
            yield
        finally:
            server.close()
            await server.wait_closed()

    async def of_all_workers(self, own: bytes) -> bytes:
        """The metrics of all workers, given those of this one."""
        address = self.address
        numbers = [number for number in range(1, address.count + 1) if number != address.number]
        texts = await asyncio.gather(*(self._read(number) for number in numbers))
        return merged({address.number: own, **dict(zip(numbers, texts, strict=True))})

    async def _read(self, number: int) -> bytes | None:
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.address.socket(number))
                try:
                    return await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None


def merged(texts: dict[int, bytes | None]) -> bytes:
    """Merge texts in the Prometheus format: the head of each metric once, each sample with the number of its worker."""
    heads: dict[str, list[str]] = {UP: _UP_HEAD}
    samples: dict[str, list[str]] = {UP: []}
    for number, text in sorted(texts.items()):
        samples[UP].append(f'{UP}{{worker="{number}"}} {0 if text is None else 1}')
        for family, line in _lines(text or b""):
            if line.startswith("#"):
                head = heads.setdefault(family, [])
                head += [] if line in head else [line]
            else:
                samples.setdefault(family, []).append(_labelled(line, number))
    lines = [line for family, head in heads.items() for line in (*head, *samples.get(family, []))]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(text: bytes) -> Iterator[tuple[str, str]]:
    """Each line with the name of its metric, which the head above it states."""
    family = ""
    for line in text.decode().splitlines():
        if line.startswith("# "):
            family = line.split(" ", 3)[2]
        if line:
            yield family, line


def _labelled(sample: str, number: int) -> str:
    name, brace, rest = sample.partition("{")
    if brace and " " not in name:
        return f'{name}{{worker="{number}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{worker="{number}"}} {value}'
