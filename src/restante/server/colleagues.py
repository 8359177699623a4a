"""What one worker knows of the others: their metrics, each under its number.

Whoever asks for metrics reaches any one of the workers. That one asks all of them, by sockets in a folder that the
supervisor made, and gives out everything, with a label `worker`. One that does not answer is shown as not up.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ANSWER_SECONDS = 2.0
UP = "restante_worker_up"
_UP_HEAD = [f"# HELP {UP} Whether the worker answered.", f"# TYPE {UP} gauge"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which worker a process is, and where all of them meet."""

    folder: Path
    number: int
    count: int

    def socket(self, number: int) -> str:
        return str(self.folder / f"{number}.sock")


class Colleagues:
    def __init__(self, place: Place) -> None:
        self.place = place

    @asynccontextmanager
    async def answering(self, render: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
        """Tell this worker's own metrics to whoever asks."""

        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                writer.write(await render())
                await writer.drain()
            writer.close()

        # One that died left its socket behind.
        Path(self.place.socket(self.place.number)).unlink(missing_ok=True)
        server = await asyncio.start_unix_server(answer, self.place.socket(self.place.number))
        try:
            yield
        finally:
            server.close()
            await server.wait_closed()

    async def everyones(self, own: bytes) -> bytes:
        """The metrics of all workers, given this one's."""
        place = self.place
        numbers = [number for number in range(1, place.count + 1) if number != place.number]
        answers = await asyncio.gather(*(self._ask(number) for number in numbers))
        return merged({place.number: own, **dict(zip(numbers, answers, strict=True))})

    async def _ask(self, number: int) -> bytes | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self.place.socket(number))
                try:
                    return await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None


def merged(answers: dict[int, bytes | None]) -> bytes:
    """Texts in the Prometheus format as one: each metric's head once, each sample with the number of its worker."""
    heads: dict[str, list[str]] = {UP: _UP_HEAD}
    samples: dict[str, list[str]] = {UP: []}
    for number, answer in sorted(answers.items()):
        samples[UP].append(f'{UP}{{worker="{number}"}} {0 if answer is None else 1}')
        for family, line in _lines(answer or b""):
            if line.startswith("#"):
                head = heads.setdefault(family, [])
                head += [] if line in head else [line]
            else:
                samples.setdefault(family, []).append(_labelled(line, number))
    lines = [line for family, head in heads.items() for line in (*head, *samples.get(family, []))]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(text: bytes) -> Iterator[tuple[str, str]]:
    """Each line with the metric whose head was last seen above it."""
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
