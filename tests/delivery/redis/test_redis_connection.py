import asyncio
from typing import Any

import pytest

from restante.delivery.redis.redis_connection import RedisCommandError, RedisConnection, RedisUnavailable, connect
from tests.services.redis import PASSWORD, RedisServer, until

TIMEOUT_SECONDS = 30.0


async def connected(server: RedisServer, *callbacks: Any) -> RedisConnection:
    return await connect("127.0.0.1", server.port, *callbacks, password=PASSWORD)


async def test_replies_arrive_in_the_order_of_commands(empty_redis: RedisServer) -> None:
    connection = await connected(empty_redis)
    try:
        executing = [
            connection.execute([("SET", b"k%d" % number, number), ("GET", b"k%d" % number)]) for number in range(50)
        ]
        assert await asyncio.gather(*executing) == [[b"OK", b"%d" % number] for number in range(50)]
        assert await connection.execute([]) == []
    finally:
        connection.close()


async def test_error_reply_does_not_affect_other_replies(empty_redis: RedisServer) -> None:
    connection = await connected(empty_redis)
    try:
        first, refused, last = await connection.execute([("SET", "k", "x"), ("XLEN", "k"), ("GET", "k")])
        assert (first, last) == (b"OK", b"x")
        assert isinstance(refused, RedisCommandError)
        with pytest.raises(RedisCommandError, match="WRONGTYPE"):
            await connection.execute_one("XLEN", "k")
    finally:
        connection.close()


async def test_push_messages_are_passed_on(empty_redis: RedisServer) -> None:
    pushed: list[Any] = []
    connection = await connected(empty_redis, pushed.append)
    try:
        await connection.execute_one("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a:", "NOLOOP")
        await connection.execute_one("SET", "a:own", 1)
        empty_redis.execute("SET", "b:other", 1)
        empty_redis.execute("SET", "a:other", 1)
        await until(lambda: bool(pushed))
        assert pushed == [[b"invalidate", [b"a:other"]]]
    finally:
        connection.close()


async def test_lost_connection_fails_pending_commands_and_is_reported_once(empty_redis: RedisServer) -> None:
    lost: list[int] = []
    connection = await connected(empty_redis, lambda _push: None, lambda: lost.append(1))
    waiting = asyncio.ensure_future(connection.execute([("BLPOP", "nothing", 0)], TIMEOUT_SECONDS))
    ident = int(await (other := await connected(empty_redis)).execute_one("CLIENT", "ID")) - 1
    other.close()
    empty_redis.execute("CLIENT", "KILL", "ID", ident)
    with pytest.raises(RedisUnavailable):
        await asyncio.wait_for(waiting, TIMEOUT_SECONDS)
    assert lost == [1]
    assert not connection.is_open
    connection.close()
    with pytest.raises(RedisUnavailable, match="not connected"):
        await connection.execute([("PING",)])
    assert lost == [1]


async def test_timeout_closes_the_connection(empty_redis: RedisServer) -> None:
    connection = await connected(empty_redis)
    with pytest.raises(RedisUnavailable, match="in time"):
        await connection.execute([("BLPOP", "nothing", 0)], timeout_seconds=0.01)
    assert not connection.is_open


async def test_missing_server_and_wrong_password_raise(empty_redis: RedisServer) -> None:
    with pytest.raises(RedisUnavailable):
        await connect("127.0.0.1", 1)
    with pytest.raises(RedisCommandError) as refused:
        await connect("127.0.0.1", empty_redis.port, password="wr0ng")
    assert "wr0ng" not in str(refused.value)


async def test_database_number_is_selected(empty_redis: RedisServer) -> None:
    connection = await connect("127.0.0.1", empty_redis.port, password=PASSWORD, database=3)
    try:
        await connection.execute_one("SET", "k", 1)
        assert empty_redis.execute("EXISTS", "k") == 0
    finally:
        connection.close()


async def test_server_that_is_not_redis_raises_unavailable() -> None:
    async def respond_with_http(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(respond_with_http, "127.0.0.1", 0)
    async with server:
        with pytest.raises(RedisUnavailable):
            await connect("127.0.0.1", server.sockets[0].getsockname()[1])
