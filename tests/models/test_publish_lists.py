"""Requests to publish, many at once against the same one after another: answers, rows and records must be the same.

Two databases begin alike, and are asked for the same: one by lists, the other request by request, each list in one
transaction. Names that are made by chance are told apart by where they first stand.
"""

import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.hot import Failed
from restante.database.queries import Query
from restante.events.publish_requests import PublishBody, PublishRequest, carry_out
from restante.events.publishing import EventsToSign, Publisher
from restante.web.idempotency import Answered
from tests.conftest import ManualClock
from tests.databases import FreshDatabases
from tests.events import bank
from tests.events.publishers import SIGNAL, SUB, add_stream, follow, subscribe
from tests.examples import TIMES

A, B = "urn:example:a", "urn:example:b"
ADA = {"format": "email", "email": "ada@example.com"}
EVENTS: list[dict[str, Any]] = [{A: {}}, {B: {}}, {A: {"n": 1}, B: {}}, {SIGNAL: {}}, {"no uri": {}}, {A: {"n": 2**70}}]
TABLES = {
    "inbox": """SELECT i.id, i.client, i.jti, i.txn, i.event_types, i.status, i.profile, i.stream, i.created_at, t.text
                FROM event_inbox i JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id ORDER BY i.id""",
    "audit": "SELECT id, at, actor, event, client_id, detail FROM event_audit ORDER BY id",
    "keys": "SELECT actor, key, body_hash, answer FROM idempotency_keys ORDER BY actor, key",
}
_MADE = re.compile("[0-9a-f]{32}")

# For whom, where nobody and everybody at once are mistakes.
someone = st.sampled_from(["plain", "some", "none", "receiver", "follower", None, None, "nobody", "a\0b"])
bodies = st.builds(
    lambda client_id, is_odd, **more: PublishBody(
        client_id=client_id, all_subscribers=(client_id is None) != is_odd, **more
    ),
    client_id=someone,
    is_odd=st.sampled_from([False] * 9 + [True]),
    events=st.sampled_from(EVENTS),
    sub=st.sampled_from([SUB, SUB, SUB, None]),
    sub_id=st.sampled_from([None, None, ADA]),
    txn=st.sampled_from([None, None, "t-1", "two\nlines"]),
    toe=st.sampled_from([None, 7]),
)
requests = st.builds(
    PublishRequest,
    bodies,
    st.sampled_from([Publisher("ada"), Publisher("core", 3)]),
    st.sampled_from([None, None, None, "k1", "k2"]),
)
lists = st.lists(st.lists(requests, min_size=1, max_size=8), min_size=1, max_size=3)


class Side:
    """One of the two: a database with a client of every kind."""

    def __init__(self, engine: Engine) -> None:
        self.database = Database(engine)
        self._names: dict[str, str] = {}
        self._heard: list[object] = []
        ids = {
            name: self.database.write_now(bank.add_client, name).id
            for name in ("plain", "some", "none", "receiver", "follower")
        }
        subscribe(self.database, ids["some"], f'["{A}"]')
        subscribe(self.database, ids["none"], '["urn:example:c"]')
        add_stream(self.database, ids["receiver"], f'["{SIGNAL}", "{A}"]')
        only = add_stream(self.database, ids["follower"], f'["{SIGNAL}"]', all_subjects=False)
        follow(self.database, only, ADA)
        self.database.on_commit(self._heard.extend)

    def state(self) -> dict[str, Any]:
        found = {name: self.database.read_now(_all, Query(name, text)) for name, text in TABLES.items()}
        told = sum(event.rows for event in self._heard if isinstance(event, EventsToSign))
        return {**{name: [self._plain(row) for row in rows] for name, rows in found.items()}, "told": told}

    def shown(self, outcomes: Sequence[Answered | Failed]) -> list[str]:
        return [self._shown(outcome) for outcome in outcomes]

    def _shown(self, outcome: Answered | Failed) -> str:
        if isinstance(outcome, Failed):
            assert isinstance(outcome.error, RestanteError)
            return repr(outcome.error)
        return f"{self._plain(outcome.json.decode())} {outcome.is_replayed}"

    def _plain(self, told: object) -> str:
        """Without the names that chance has made."""
        return _MADE.sub(lambda found: self._names.setdefault(found[0], f"name {len(self._names)}"), repr(told))


def _all(conn: Connection, query: Query) -> list[tuple[Any, ...]]:
    return conn.values(query)


def one_by_one(conn: Connection, asked: list[PublishRequest]) -> list[Answered | Failed]:
    return [outcome for request in asked for outcome in carry_out(conn, [request])]


def test_lists(fresh: FreshDatabases) -> None:
    @settings(max_examples=fresh.share(40) * TIMES)
    @given(lists)
    def check(asked: list[list[PublishRequest]]) -> None:
        clock = ManualClock()
        together, alone = Side(fresh.new(clock)), Side(fresh.new(clock, 1))
        try:
            for each in asked:
                outcomes = together.database.write_now(carry_out, each), alone.database.write_now(one_by_one, each)
                # First the rows, whose order gives the names theirs.
                assert together.state() == alone.state()
                assert together.shown(outcomes[0]) == alone.shown(outcomes[1])
        finally:
            together.database.close()
            alone.database.close()

    check()
