"""Redis as one component: the copy of logs and rate limits. Without Redis the component reads the database alone."""

from collections.abc import Iterable, Mapping

from restante.database.database import Database
from restante.delivery.log.log import SignalsPublished
from restante.delivery.log.log_reader import LogReader, LogSource
from restante.delivery.redis.rate_limit_mirror import RateLimitMirrorCounters
from restante.delivery.redis.redis_address import RedisAddress
from restante.delivery.redis.redis_log import KEY_PURPOSE, EntryTags, RedisCounters, RedisLog
from restante.delivery.redis.redis_rate_limits import RedisRateLimits
from restante.delivery.redis.redis_reader import RedisReader
from restante.delivery.redis.redis_servers import RedisServers
from restante.identity.master_key import MasterKey
from restante.updates.polling.poll import UpdatesPoll
from restante.updates.polling.redis_invalidation import RedisInvalidation
from restante.web.component import Component, EventHandler, MetricSample, Service


class RedisComponent(Component):
    def __init__(self, address: RedisAddress | None, database: Database, master_key: MasterKey) -> None:
        tags = EntryTags(master_key.derive_key(KEY_PURPOSE))
        self.log = None if address is None else RedisLog(RedisServers(address), database, tags)
        self.rate_limits = None if self.log is None else RedisRateLimits(self.log.servers)
        self.reader: LogSource = LogReader(database) if self.log is None else RedisReader(database, self.log)

    def invalidate_for(self, poll: UpdatesPoll) -> None:
        """Pass changes of streams by other servers to the poll."""
        if self.log is not None:
            invalidation = RedisInvalidation(self.log, poll)
            self.log.servers.on_change = invalidation.handle_change
            self.log.servers.on_interruption = poll.notify_all
        if isinstance(self.reader, RedisReader):
            self.reader.known = poll.waiters.known

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {} if self.log is None else {SignalsPublished: self.log.copy}

    def services(self) -> list[Service]:
        return [] if self.log is None else [Service("redis", self.log.servers.run)]

    def unavailable(self) -> list[str]:
        return ["redis"] if self.log is not None and not self.log.servers.accepts_writes else []

    def metrics(self) -> Iterable[MetricSample]:
        counters = RedisCounters() if self.log is None else self.log.counters
        yield MetricSample("restante_redis_up", float(self.log is not None and self.log.servers.accepts_writes))
        yield MetricSample("restante_redis_reads", counters.hits, ("hit",))
        yield MetricSample("restante_redis_reads", counters.misses, ("miss",))
        yield MetricSample("restante_redis_reads", counters.fallbacks, ("fallback",))
        yield MetricSample("restante_redis_copies", counters.copied)
        yield MetricSample("restante_redis_rebuilds", counters.rebuilt)
        yield MetricSample("restante_redis_rings", counters.invalidations)
        limits = RateLimitMirrorCounters() if self.rate_limits is None else self.rate_limits.counters
        yield MetricSample("restante_redis_windows", limits.refused, ("refused",))
        yield MetricSample("restante_redis_windows", limits.passed, ("passed",))
        yield MetricSample("restante_redis_windows", limits.fallbacks, ("fallback",))
