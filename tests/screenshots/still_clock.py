"""A clock that does not move until it is set, shared by processes through a file, and ids from a seed.

Only for pictures: a server with such a clock and such ids must serve nobody.

    director ── sets the time ─────────────────▶ file ──▶ server
             ◀── charts sampled, rollouts checked ──┘
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

_NUMBER = struct.Struct("<q")
_NOW_AT, _SAMPLED_AT, _CHECKED_AT = 0, 8, 16
SIZE = 24
# Longer than any count takes, however busy the machine is.
COUNT_WAIT_SECONDS = 100.0


class StillClock:
    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)

    @property
    def now_ms(self) -> int:
        return self._number(_NOW_AT)

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        _NUMBER.pack_into(self._memory, _NOW_AT, value)

    @property
    def sampled(self) -> int:
        """The number of the five seconds up to which the server's charts are drawn."""
        return self._number(_SAMPLED_AT)

    @sampled.setter
    def sampled(self, value: int) -> None:
        _NUMBER.pack_into(self._memory, _SAMPLED_AT, value)

    @property
    def checked_ms(self) -> int:
        """The time for which the server has checked its rollouts."""
        return self._number(_CHECKED_AT)

    @checked_ms.setter
    def checked_ms(self, value: int) -> None:
        _NUMBER.pack_into(self._memory, _CHECKED_AT, value)

    def _number(self, offset: int) -> int:
        return int(_NUMBER.unpack_from(self._memory, offset)[0])

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
    cursors, sampling the charts, and checking each rollout, once. Pages wait for their counts.
    """
    from restante.console import pages, rates
    from restante.console.rendering.charts import PLACES, SECONDS_PER_PLACE
    from restante.database.clocks.steady_clock import SteadyClock
    from restante.delivery.long_poll import LongPoll
    from restante.delivery.presence import Presence
    from restante.jobs.rollouts.controller import RolloutController

    SteadyClock.__init__.__defaults__ = (time.time_ns, lambda: 0)
    # The overview imports these names later.
    setattr(pages, "COUNT_WAIT_SECONDS", COUNT_WAIT_SECONDS)  # noqa: B010
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

    async def check_rollouts(self: RolloutController) -> None:
        clock.checked_ms = clock.now_ms
        while True:
            now = clock.now_ms
            if now > clock.checked_ms:
                await self.run_once()
                clock.checked_ms = now
            await asyncio.sleep(0.005)

    # How long a check took must not decide when the next one is due.
    RolloutController.__init__.__defaults__ = (0,)
    setattr(RolloutController, "run", check_rollouts)  # noqa: B010


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
