"""Idempotency keys: a request that is sent again under its key is answered as it was the first time, and does nothing.

The key is its caller's own, and is kept in the transaction of what it did: there is no moment in which the one is
there without the other. A request that failed did nothing and leaves no key.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from restante.core.errors import BadInput, Unprocessable
from restante.database.connection import Connection
from restante.database.hot import Failed
from restante.database.queries import queries_beside
from restante.web.answer import Answer, json_answer
from restante.web.ask import Ask

SQL = queries_beside(__file__)

KEY_CHARACTERS_MAX = 255
KEEP_SECONDS = 48 * 3600


class KeyReused(Unprocessable):
    """This Idempotency-Key was used for another request."""

    code: ClassVar[str] = "IDEMPOTENCY_KEY_REUSED"


class Asked(NamedTuple):
    """Who asks for what, and under which key, if any."""

    actor: str
    key: str | None
    body: bytes


class Answered(NamedTuple):
    """The answer's JSON; `is_replayed` where it was given before."""

    json: bytes
    is_replayed: bool

    def as_answer(self, status: int = 201) -> Answer:
        answer = json_answer(self.json, status)
        return answer.with_headers((b"idempotency-replayed", b"true")) if self.is_replayed else answer


def key_of(ask: Ask) -> str | None:
    """The request's `Idempotency-Key`, if it has one."""
    key = ask.request.headers.get("idempotency-key")
    return None if key is None else checked_key(key)


def once(conn: Connection, asked: Asked, work: Callable[[], bytes]) -> Answered:
    """What the work answers; where it was done under the key before, what it answered then."""
    if asked.key is None:
        return Answered(work(), False)
    before = answer_to(conn, asked.actor, asked.key, asked.body)
    if before is not None:
        return Answered(before.encode(), True)
    answer = work()
    remember(conn, asked.actor, asked.key, asked.body, answer.decode())
    return Answered(answer, False)


def once_each(
    conn: Connection, asked: Sequence[Asked], work: Callable[[list[int]], Sequence[bytes | Failed]]
) -> list[Answered | Failed]:
    """`once` for each, as if they came one after another. `work` is given the places of those that are to be done, and
    does them together."""
    outcomes: dict[int, Answered | Failed] = {}
    while left := [place for place in range(len(asked)) if place not in outcomes]:
        together = _until_a_key_repeats(asked, left)
        outcomes |= _replayed(conn, {place: asked[place] for place in together if asked[place].key is not None})
        new = [place for place in together if place not in outcomes]
        for place, answer in zip(new, work(new), strict=True):
            outcomes[place] = answer if isinstance(answer, Failed) else Answered(answer, False)
        done = [(asked[place], outcome.json) for place in new if isinstance(outcome := outcomes[place], Answered)]
        _remember_all(conn, done)
    return [outcomes[place] for place in range(len(asked))]


def _until_a_key_repeats(asked: Sequence[Asked], places: list[int]) -> list[int]:
    """Those before the first whose key one of them has, too: it is answered by what comes of that one."""
    seen: set[tuple[str, str]] = set()
    for count, place in enumerate(places):
        actor, key, _ = asked[place]
        if key is None:
            continue
        if (actor, key) in seen:
            return places[:count]
        seen.add((actor, key))
    return places


def _replayed(conn: Connection, asked: dict[int, Asked]) -> dict[int, Answered | Failed]:
    """What those are answered whose key was used before."""
    found = {place: conn.values_later(SQL.find, actor=each.actor, key=each.key) for place, each in asked.items()}
    outcomes: dict[int, Answered | Failed] = {}
    for place, rows in found.items():
        for body_hash, answer in rows():
            is_same = body_hash == _digest(asked[place].body)
            outcomes[place] = Answered(answer.encode(), True) if is_same else Failed(KeyReused())
    return outcomes


def _remember_all(conn: Connection, done: Sequence[tuple[Asked, bytes]]) -> None:
    rows = [
        (asked.actor, asked.key, _digest(asked.body), answer.decode(), conn.now_ms)
        for asked, answer in done
        if asked.key is not None
    ]
    conn.run_rows(SQL.insert, rows)


def checked_key(key: str) -> str:
    if not 1 <= len(key) <= KEY_CHARACTERS_MAX or not key.isascii() or not key.isprintable():
        raise BadInput("Idempotency-Key", f"1 to {KEY_CHARACTERS_MAX} printable ASCII characters")
    return key


def answer_to(conn: Connection, actor: str, key: str, body: bytes) -> str | None:
    """What the same request was answered; None if it is new, KeyReused if the key was another request's."""
    row = conn.one(SQL.find, actor=actor, key=key)
    if row is None:
        return None
    if row["body_hash"] != _digest(body):
        raise KeyReused()
    return str(row["answer"])


def remember(conn: Connection, actor: str, key: str, body: bytes, answer: str) -> None:
    conn.run(SQL.insert, actor=actor, key=key, body_hash=_digest(body), answer=answer, now_ms=conn.now_ms)


def forget_old(conn: Connection) -> int:
    """Clear the keys whose time is over; how many there were. Meant to be run now and then."""
    return conn.run(SQL.forget, before=conn.now_ms - KEEP_SECONDS * 1000)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
