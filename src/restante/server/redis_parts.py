"""Redis, where it is configured, put together; where it is not, the same parts without it."""

from collections.abc import Iterator

from restante.database.database import Database
from restante.delivery.log import Published
from restante.delivery.log_reader import LogReader, ReadsLog
from restante.delivery.redis_address import RedisAddress
from restante.delivery.redis_log import RedisLog, RedisTotals
from restante.delivery.redis_reader import RedisReader
from restante.delivery.redis_servers import RedisServers
from restante.delivery.redis_windows import RedisWindows
from restante.delivery.window_copies import WindowTotals
from restante.server.services import Service
from restante.updates.poll import Poll
from restante.updates.stream_rings import StreamRings


class RedisParts:
    def __init__(self, address: RedisAddress | None, database: Database) -> None:
        self.log = None if address is None else RedisLog(RedisServers(address), database)
        self.windows = None if self.log is None else RedisWindows(self.log.servers)
        self.reader: ReadsLog = LogReader(database) if self.log is None else RedisReader(database, self.log)

    def ring_for(self, poll: Poll) -> None:
        """Have the poll told what others changed."""
        if self.log is not None:
            rings = StreamRings(self.log, poll)
            self.log.servers.on_ring = rings.hear
            self.log.servers.on_interruption = poll.look_again
        if isinstance(self.reader, RedisReader):
            self.reader.known = poll.bell.known

    def copy(self, published: Published) -> None:
        if self.log is not None:
            self.log.copy(published)

    def services(self) -> Iterator[Service]:
        if self.log is not None:
            yield Service("redis", self.log.servers.run)

    def away(self) -> list[str]:
        return ["redis"] if self.log is not None and not self.log.servers.is_up else []

    def values(self) -> Iterator[tuple[str, str | None, float]]:
        """What the metrics say: metric, label, value."""
        totals = RedisTotals() if self.log is None else self.log.totals
        yield "restante_redis_up", None, float(self.log is not None and self.log.servers.is_up)
        yield "restante_redis_reads", "hit", totals.hits
        yield "restante_redis_reads", "miss", totals.misses
        yield "restante_redis_reads", "fallback", totals.fallbacks
        yield "restante_redis_copies", None, totals.copied
        yield "restante_redis_rebuilds", None, totals.rebuilt
        yield "restante_redis_rings", None, totals.rings
        windows = WindowTotals() if self.windows is None else self.windows.totals
        yield "restante_redis_windows", "refused", windows.refused
        yield "restante_redis_windows", "passed", windows.passed
        yield "restante_redis_windows", "fallback", windows.fallbacks
