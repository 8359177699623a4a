"""Redis is flushed, restarted empty, killed, and replaced by a stale replica: no signal is lost or delivered twice."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from restante.core.cursor import LogHead
from restante.database.database import Database
from restante.delivery.log.log import LogEntry, LogSlice
from restante.delivery.redis import redis_log
from restante.delivery.redis.redis_log import EntryTags, StreamRequest
from restante.delivery.redis.redis_servers import stream_key
from tests.faults.redis.campaign import DEVICES, RedisCampaign, RedisNode, Verdict
from tests.services.processes import service_folder
from tests.services.redis import ACCOUNT, RedisServer

FAULTS = 10

pytestmark = pytest.mark.slow


async def run_campaign(database: Database, url: str, faults: list[Any], seed: int = 1) -> Verdict:
    node = RedisNode(database, url)
    await node.up()
    try:
        verdict = await RedisCampaign(node, seed).run(faults)
    finally:
        await node.end()
    sys.stdout.write(f"{verdict}\n")
    return verdict


async def test_repeated_flushes_lose_nothing(database: Database, own_redis: RedisServer) -> None:
    verdict = await run_campaign(database, own_redis.url, [lambda: own_redis.execute("FLUSHALL")] * FAULTS)
    assert verdict.wrong == []
    assert verdict.from_redis > 0


async def test_repeated_empty_restarts_lose_nothing(database: Database, own_redis: RedisServer) -> None:
    def restart_empty() -> None:
        own_redis.kill()
        own_redis.delete_data()
        own_redis.start()

    verdict = await run_campaign(database, own_redis.url, [restart_empty] * FAULTS, seed=2)
    assert verdict.wrong == []


class StaleReplica:
    """Two servers that use one port in turn: the replica stops replicating, then replaces the master."""

    def __init__(self, master: RedisServer, other: RedisServer) -> None:
        self.serving = master
        self.other = other
        self.port = master.port

    def promote(self) -> None:
        """Replace the master; its writes since the replica stopped replicating are lost."""
        self.serving.kill()
        self.other.kill()
        self.serving.delete_data()
        self.serving, self.other = self.other, self.serving
        self.serving.port, self.other.port = self.port, self.serving.port
        self.serving.start()
        self.other.start("--replicaof", "127.0.0.1", str(self.port))
        self.other.wait_until(lambda: b"master_link_status:up" in _replication(self.other))
        # From here on the other server falls behind.
        self.other.execute("REPLICAOF", "NO", "ONE")


def _replication(server: RedisServer) -> bytes:
    info = server.execute("INFO", "replication")
    return f"master_link_status:{info.get('master_link_status')}".encode()


@contextmanager
def stale_replica() -> Iterator[StaleReplica]:
    with service_folder(ACCOUNT) as a, service_folder(ACCOUNT) as b:
        flags = ("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
        master, other = RedisServer(a, *flags), RedisServer(b, *flags)
        master.start()
        other.start()
        try:
            yield StaleReplica(master, other)
        finally:
            master.kill()
            other.kill()


async def test_repeated_promotions_of_a_stale_replica_lose_nothing(database: Database) -> None:
    with stale_replica() as pair:
        verdict = await run_campaign(database, f"redis://127.0.0.1:{pair.port}", [pair.promote] * FAULTS, seed=3)
    assert verdict.wrong == []


def trust_stream(request: StreamRequest, response: Any, _tags: EntryTags) -> LogSlice:
    """Planted bug: trust that the stream holds all entries."""
    entries = [LogEntry(redis_log._position(identifier), fields[1]) for identifier, fields in response or []]
    found = [entry for entry in entries if request.cursor is None or entry.position > request.cursor]
    return LogSlice(LogHead(found[-1].position if found else request.cursor or request.tail), found)


async def test_bug_trusting_an_empty_stream_is_found(
    database: Database, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_log, "_proven", trust_stream)
    verdict = await run_campaign(database, own_redis.url, [lambda: own_redis.execute("FLUSHALL")] * FAULTS)
    assert verdict.wrong != []


async def test_build_that_never_copies_to_redis_loses_nothing(
    database: Database, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that Redis lacks are read from the database."""
    monkeypatch.setattr(redis_log.RedisLog, "copy", lambda _self, _published: None)
    monkeypatch.setattr(redis_log.RedisLog, "_queue_rebuild", lambda _self, _device_id: None)
    verdict = await run_campaign(database, own_redis.url, [lambda: None])
    assert (verdict.wrong, verdict.from_redis) == ([], 0)
    assert sum(own_redis.execute("EXISTS", stream_key(device_id)) for device_id in range(1, DEVICES + 1)) == 0
