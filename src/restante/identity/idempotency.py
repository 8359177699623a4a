"""Idempotency keys: a request repeated under its key gets the first response again and changes nothing.

A key belongs to its caller (`actor`). It is stored in the transaction of the request's own effect, so neither exists
without the other. A request that failed has no effect and leaves no key. How many are kept: idempotency_limits.py.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from restante.core.errors import BadInput, Unprocessable
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.database.writer.batching import Failed

SQL = queries_beside(__file__)

KEY_CHARACTERS_MAX = 255
KEEP_SECONDS = 48 * 3600


class KeyReused(Unprocessable):
    """This Idempotency-Key was used for another request."""

    code: ClassVar[str] = "IDEMPOTENCY_KEY_REUSED"


class IdempotentRequest(msgspec.Struct, frozen=True):
    actor: str
    key: str | None
    body: bytes


class IdempotentResult(msgspec.Struct, frozen=True):
    """The response's JSON; `is_replayed` if it was sent before."""

    json: bytes
    is_replayed: bool


def run_once(conn: Connection, request: IdempotentRequest, work: Callable[[], bytes]) -> IdempotentResult:
    """Run the work and return its response, or the stored response if it ran under the key before."""
    if request.key is None:
        return IdempotentResult(work(), False)
    stored = find_response(conn, request.actor, request.key, request.body)
    if stored is not None:
        return IdempotentResult(stored.encode(), True)
    response = work()
    store_response(conn, request.actor, request.key, request.body, response.decode())
    return IdempotentResult(response, False)


def run_each_once(
    conn: Connection, requests: Sequence[IdempotentRequest], work: Callable[[list[int]], Sequence[bytes | Failed]]
) -> list[IdempotentResult | Failed]:
    """`run_once` for each request, as if they came one after another. `work` receives the indexes of the requests that
    must run, and runs them together."""
    results: dict[int, IdempotentResult | Failed] = {}
    while remaining := [index for index in range(len(requests)) if index not in results]:
        batch = _before_repeated_key(requests, remaining)
        results |= _replayed(conn, {index: requests[index] for index in batch if requests[index].key is not None})
        new = [index for index in batch if index not in results]
        for index, response in zip(new, work(new), strict=True):
            results[index] = response if isinstance(response, Failed) else IdempotentResult(response, False)
        _store_all(conn, [(requests[index], results[index]) for index in new])
    return [results[index] for index in range(len(requests))]


def _before_repeated_key(requests: Sequence[IdempotentRequest], indexes: list[int]) -> list[int]:
    """The requests before the first one that repeats a key: its response depends on the earlier request's result."""
    seen: set[tuple[str, str]] = set()
    for count, index in enumerate(indexes):
        request = requests[index]
        if request.key is None:
            continue
        if (request.actor, request.key) in seen:
            return indexes[:count]
        seen.add((request.actor, request.key))
    return indexes


def _replayed(conn: Connection, requests: dict[int, IdempotentRequest]) -> dict[int, IdempotentResult | Failed]:
    """The results of the requests whose key was used before."""
    found = {index: conn.prefetch(SQL.find, actor=each.actor, key=each.key) for index, each in requests.items()}
    results: dict[int, IdempotentResult | Failed] = {}
    for index, rows in found.items():
        for body_hash, response in rows():
            is_same = body_hash == _digest(requests[index].body)
            results[index] = IdempotentResult(response.encode(), True) if is_same else Failed(KeyReused())
    return results


def _store_all(conn: Connection, done: Sequence[tuple[IdempotentRequest, IdempotentResult | Failed]]) -> None:
    rows = [
        (request.actor, request.key, _digest(request.body), result.json.decode(), len(result.json), conn.now_ms)
        for request, result in done
        if request.key is not None and isinstance(result, IdempotentResult)
    ]
    conn.run_rows(SQL.insert, rows)


def checked_key(key: str) -> str:
    if not 1 <= len(key) <= KEY_CHARACTERS_MAX or not key.isascii() or not key.isprintable():
        raise BadInput("Idempotency-Key", f"1 to {KEY_CHARACTERS_MAX} printable ASCII characters")
    return key


def find_response(conn: Connection, actor: str, key: str, body: bytes) -> str | None:
    """The stored response to the same request, None if the key is new; raises KeyReused for another request."""
    row = conn.one(SQL.find, actor=actor, key=key)
    if row is None:
        return None
    if row["body_hash"] != _digest(body):
        raise KeyReused()
    return str(row["answer"])


def store_response(conn: Connection, actor: str, key: str, body: bytes, response: str) -> None:
    conn.run(
        SQL.insert,
        actor=actor,
        key=key,
        body_hash=_digest(body),
        answer=response,
        size=len(response.encode()),
        now_ms=conn.now_ms,
    )


def delete_expired(conn: Connection) -> int:
    """Delete expired keys; returns how many there were. Run periodically."""
    return conn.run(SQL.delete_expired, before=conn.now_ms - KEEP_SECONDS * 1000)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
