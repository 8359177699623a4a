"""Redis flushed, emptied, killed and replaced by a replica that was behind: no signal is lost, none comes twice."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from restante.core.cursor import Head
from restante.database.database import Database
from restante.delivery import redis_log
from restante.delivery.log import LogEntry, Reading
from restante.delivery.redis_log import StreamRead
from restante.delivery.redis_servers import stream_key
from tests.faults.redis_campaign import DEVICES, Campaign, FaultyNode, Verdict
from tests.services.processes import folder_of
from tests.services.redis import ACCOUNT, RedisServer

TIMES = 10

pytestmark = pytest.mark.slow


async def campaign(database: Database, url: str, faults: list[Any], seed: int = 1) -> Verdict:
    node = FaultyNode(database, url)
    await node.up()
    try:
        verdict = await Campaign(node, seed).run(faults)
    finally:
        await node.end()
    sys.stdout.write(f"{verdict}\n")
    return verdict


async def test_flushed_ten_times(database: Database, redis_alone: RedisServer) -> None:
    verdict = await campaign(database, redis_alone.url, [lambda: redis_alone.ask("FLUSHALL")] * TIMES)
    assert verdict.wrong == []
    assert verdict.from_redis > 0


async def test_killed_and_started_empty_ten_times(database: Database, redis_alone: RedisServer) -> None:
    def replace() -> None:
        redis_alone.kill()
        redis_alone.lose_everything()
        redis_alone.start()

    verdict = await campaign(database, redis_alone.url, [replace] * TIMES, seed=2)
    assert verdict.wrong == []


class StaleReplica:
    """A pair of servers on one port in turn: the replica stops following, then takes the master's place."""

    def __init__(self, master: RedisServer, other: RedisServer) -> None:
        self.serving = master
        self.other = other
        self.port = master.port

    def promote(self) -> None:
        """What the master was told since the replica stopped following is gone."""
        self.serving.kill()
        self.other.kill()
        self.serving.lose_everything()
        self.serving, self.other = self.other, self.serving
        self.serving.port, self.other.port = self.port, self.serving.port
        self.serving.start()
        self.other.start("--replicaof", "127.0.0.1", str(self.port))
        self.other.wait_until(lambda: b"master_link_status:up" in _replication(self.other))
        # From here on it falls behind, without knowing.
        self.other.ask("REPLICAOF", "NO", "ONE")


def _replication(server: RedisServer) -> bytes:
    found = server.ask("INFO", "replication")
    return f"master_link_status:{found.get('master_link_status')}".encode()


@contextmanager
def replicated() -> Iterator[StaleReplica]:
    with folder_of(ACCOUNT) as a, folder_of(ACCOUNT) as b:
        flags = ("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
        master, other = RedisServer(a, *flags), RedisServer(b, *flags)
        master.start()
        other.start()
        try:
            yield StaleReplica(master, other)
        finally:
            master.kill()
            other.kill()


async def test_a_stale_replica_promoted_ten_times(database: Database) -> None:
    with replicated() as pair:
        verdict = await campaign(database, f"redis://127.0.0.1:{pair.port}", [pair.promote] * TIMES, seed=3)
    assert verdict.wrong == []


def trusting(wanted: StreamRead, reply: Any) -> Reading:
    """A build that takes what the stream holds for all there is."""
    entries = [LogEntry(redis_log._position(identifier), fields[1]) for identifier, fields in reply or []]
    found = [entry for entry in entries if wanted.cursor is None or entry.position > wanted.cursor]
    return Reading(Head(found[-1].position if found else wanted.cursor or wanted.tail), found)


async def test_a_build_that_trusts_an_empty_stream_is_found_out(
    database: Database, redis_alone: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_log, "_proven", trusting)
    verdict = await campaign(database, redis_alone.url, [lambda: redis_alone.ask("FLUSHALL")] * TIMES)
    assert verdict.wrong != []


async def test_a_build_that_never_copies_reads_nothing_from_redis_and_loses_nothing(
    database: Database, redis_alone: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Redis lacks is only slower."""
    monkeypatch.setattr(redis_log.RedisLog, "copy", lambda _self, _published: None)
    monkeypatch.setattr(redis_log.RedisLog, "_rebuild_soon", lambda _self, _device_id: None)
    verdict = await campaign(database, redis_alone.url, [lambda: None])
    assert (verdict.wrong, verdict.from_redis) == ([], 0)
    assert sum(redis_alone.ask("EXISTS", stream_key(device_id)) for device_id in range(1, DEVICES + 1)) == 0
