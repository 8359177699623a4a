import asyncio
from typing import Any

import pytest

from restante.delivery.redis_connection import RedisAway, RedisConnection, RedisRefused, connect
from tests.services.redis import PASSWORD, RedisServer, until

SOON = 30.0


async def connected(server: RedisServer, *told: Any) -> RedisConnection:
    return await connect("127.0.0.1", server.port, *told, password=PASSWORD)


async def test_what_is_asked_together_is_answered_in_order(empty_redis: RedisServer) -> None:
    connection = await connected(empty_redis)
    try:
        asked = [connection.ask([("SET", b"k%d" % number, number), ("GET", b"k%d" % number)]) for number in range(50)]
        assert await asyncio.gather(*asked) == [[b"OK", b"%d" % number] for number in range(50)]
        assert await connection.ask([]) == []
    finally:
        connection.close()


async def test_a_refusal_is_one_reply_among_others(empty_redis: RedisServer) -> None:
    connection = await connected(empty_redis)
    try:
        first, refused, last = await connection.ask([("SET", "k", "x"), ("XLEN", "k"), ("GET", "k")])
        assert (first, last) == (b"OK", b"x")
        assert isinstance(refused, RedisRefused)
        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            await connection.ask_one("XLEN", "k")
    finally:
        connection.close()


async def test_what_redis_says_unasked_is_passed_on(empty_redis: RedisServer) -> None:
    pushed: list[Any] = []
    connection = await connected(empty_redis, pushed.append)
    try:
        await connection.ask_one("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a:", "NOLOOP")
        await connection.ask_one("SET", "a:own", 1)
        empty_redis.ask("SET", "b:other", 1)
        empty_redis.ask("SET", "a:other", 1)
        await until(lambda: bool(pushed))
        assert pushed == [[b"invalidate", [b"a:other"]]]
    finally:
        connection.close()


async def test_a_connection_that_ends_fails_what_waits_and_says_so_once(empty_redis: RedisServer) -> None:
    lost: list[int] = []
    connection = await connected(empty_redis, lambda _push: None, lambda: lost.append(1))
    waiting = asyncio.ensure_future(connection.ask([("BLPOP", "nothing", 0)], SOON))
    ident = int(await (other := await connected(empty_redis)).ask_one("CLIENT", "ID")) - 1
    other.close()
    empty_redis.ask("CLIENT", "KILL", "ID", ident)
    with pytest.raises(RedisAway):
        await asyncio.wait_for(waiting, SOON)
    assert lost == [1]
    assert not connection.is_open
    connection.close()
    with pytest.raises(RedisAway, match="not connected"):
        await connection.ask([("PING",)])
    assert lost == [1]


async def test_one_that_gives_up_waiting_ends_the_connection(empty_redis: RedisServer) -> None:
    connection = await connected(empty_redis)
    with pytest.raises(RedisAway, match="in time"):
        await connection.ask([("BLPOP", "nothing", 0)], within_seconds=0.01)
    assert not connection.is_open


async def test_nobody_there_and_a_wrong_password(empty_redis: RedisServer) -> None:
    with pytest.raises(RedisAway):
        await connect("127.0.0.1", 1)
    with pytest.raises(RedisRefused) as refused:
        await connect("127.0.0.1", empty_redis.port, password="wr0ng")
    assert "wr0ng" not in str(refused.value)


async def test_a_database_of_ones_own(empty_redis: RedisServer) -> None:
    connection = await connect("127.0.0.1", empty_redis.port, password=PASSWORD, database=3)
    try:
        await connection.ask_one("SET", "k", 1)
        assert empty_redis.ask("EXISTS", "k") == 0
    finally:
        connection.close()


async def test_what_is_not_redis_is_let_go() -> None:
    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        with pytest.raises(RedisAway):
            await connect("127.0.0.1", server.sockets[0].getsockname()[1])
