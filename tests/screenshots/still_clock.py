"""A clock that does not move until it is set, shared by processes through a file, and ids from a seed.

Only for pictures: a server with such a clock and such ids must serve nobody.

    director ── sets the time ──▶ file ──▶ server
             ◀── charts sampled ──┘
"""

import asyncio
import hashlib
import mmap
import os
import secrets
import struct
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

_NOW, _SAMPLED = struct.Struct("<q"), struct.Struct("<q")
_SAMPLED_AT = 8
SIZE = 16


class StillClock:
    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)

    @property
    def now_ms(self) -> int:
        return int(_NOW.unpack_from(self._memory)[0])

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        _NOW.pack_into(self._memory, 0, value)

    @property
    def sampled(self) -> int:
        """The number of the five seconds up to which the server's charts are drawn."""
        return int(_SAMPLED.unpack_from(self._memory, _SAMPLED_AT)[0])

    @sampled.setter
    def sampled(self, value: int) -> None:
        _SAMPLED.pack_into(self._memory, _SAMPLED_AT, value)

    def use(self) -> None:
        """Make it the wall clock of this process. Waiting goes by the monotonic clock, as before."""
        time.time = lambda: self.now_ms / 1000
        time.time_ns = lambda: self.now_ms * 1_000_000


def use_seeded_ids() -> None:
    """Every place in the source that draws random bytes gets its own series, whatever the other places draw."""
    counts: Counter[str] = Counter()

    def draw(caller: FrameType, size: int) -> bytes:
        place = f"{Path(caller.f_code.co_filename).name}:{caller.f_code.co_qualname}"
        counts[place] += 1
        return hashlib.shake_256(f"{place}:{counts[place]}".encode()).digest(size)

    def patched(make: Callable[[bytes], Any], default: int) -> Callable[..., Any]:
        return lambda size=default: make(draw(sys._getframe(1), size or default))

    os.urandom = patched(bytes, 32)
    secrets.token_bytes = patched(bytes, 32)
    secrets.token_hex = patched(bytes.hex, 32)
    secrets.token_urlsafe = patched(lambda raw: raw.hex(), 32)
    secrets.randbits = lambda k: int.from_bytes(draw(sys._getframe(1), 16)) % (1 << k)
    uuid.uuid4 = lambda: uuid.UUID(bytes=draw(sys._getframe(1), 16), version=4)


def use_in_server(clock: StillClock) -> None:
    """Let the server's own clock stand still, too.

    What the server does as time passes, and pages show, it does when the clock is set: storing last polls and confirmed
    cursors, and sampling the charts.
    """
    from restante.console import rates
    from restante.console.rendering.charts import PLACES, SECONDS_PER_PLACE
    from restante.database.clocks.steady_clock import SteadyClock
    from restante.delivery.long_poll import LongPoll
    from restante.delivery.presence import Presence

    SteadyClock.__init__.__defaults__ = (time.time_ns, lambda: 0)
    # How many transactions share a commit depends on the speed of the machine.
    setattr(rates, "CHARTS", tuple(chart for chart in rates.CHARTS if chart.key != "commits"))  # noqa: B010

    # Polls use a time that is a second old at most.
    setattr(LongPoll, "now", property(lambda _: time.time(), lambda _self, _now: None))  # noqa: B010
    presences: list[Presence] = []

    async def register(self: Presence) -> None:
        presences.append(self)
        await asyncio.Event().wait()

    setattr(Presence, "run", register)  # noqa: B010

    async def run(self: rates.Rates) -> None:
        place = clock.now_ms // 1000 // SECONDS_PER_PLACE
        while True:
            now = clock.now_ms // 1000 // SECONDS_PER_PLACE
            if now > place:
                for presence in presences:
                    await presence.try_once()
            for _ in range(max(place, now - PLACES), now):
                await self.sample()
            place = clock.sampled = now
            await asyncio.sleep(0.005)

    setattr(rates.Rates, "run", run)  # noqa: B010


def main() -> None:
    """`python -m tests.screenshots.still_clock FILE ARGUMENTS…`: `restante ARGUMENTS…` with this clock."""
    clock = StillClock(Path(sys.argv[1]))
    clock.use()
    use_seeded_ids()
    use_in_server(clock)
    from restante.cli.main import main as restante

    sys.argv[1:2] = []
    restante()


if __name__ == "__main__":
    main()
