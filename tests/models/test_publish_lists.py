"""Publishing a batch of requests compared with publishing them one by one: responses, rows and audit must be equal.

Two databases start equal and get the same requests: one in batches, the other request by request, each batch in one
transaction. Random ids are replaced by numbers in the order of their first occurrence.
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
from restante.database.queries import Query
from restante.database.writer.batching import Failed
from restante.events.publishing.publish_requests import PublishBody, PublishRequest, publish_batch
from restante.events.publishing.publishing import EventsToSign, Publisher
from restante.identity.idempotency import IdempotentResult
from tests.conftest import ManualClock
from tests.databases import FreshDatabases
from tests.events import inbox_fixture
from tests.events.publish_fixture import SESSION_REVOKED, SUB, add_stream, set_subject_preference, subscribe
from tests.examples import EXAMPLES_FACTOR

A, B = "urn:example:a", "urn:example:b"
ADA = {"format": "email", "email": "ada@example.com"}
EVENTS: list[dict[str, Any]] = [
    {A: {}},
    {B: {}},
    {A: {"n": 1}, B: {}},
    {SESSION_REVOKED: {}},
    {"no uri": {}},
    {A: {"n": 2**70}},
]
TABLES = {
    "inbox": """SELECT i.id, i.client, i.jti, i.txn, i.event_types, i.status, i.profile, i.stream, i.created_at, t.text
                FROM event_inbox i JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id ORDER BY i.id""",
    "audit": "SELECT id, at, actor, event, client_id, detail FROM event_audit ORDER BY id",
    "keys": "SELECT actor, key, body_hash, answer FROM idempotency_keys ORDER BY actor, key",
}
_RANDOM_ID = re.compile("[0-9a-f]{32}")

# The recipient; an unknown client, and none or both of client and all subscribers, are errors.
recipients = st.sampled_from(["plain", "some", "none", "receiver", "follower", None, None, "nobody", "a\0b"])
bodies = st.builds(
    lambda client_id, is_inconsistent, **more: PublishBody(
        client_id=client_id, all_subscribers=(client_id is None) != is_inconsistent, **more
    ),
    client_id=recipients,
    is_inconsistent=st.sampled_from([False] * 9 + [True]),
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
batches = st.lists(st.lists(requests, min_size=1, max_size=8), min_size=1, max_size=3)


class PublishingDatabase:
    """A database with a client of every kind."""

    def __init__(self, engine: Engine) -> None:
        self.database = Database(engine)
        self._numbers: dict[str, str] = {}
        self._commit_events: list[object] = []
        ids = {
            name: self.database.write_now(inbox_fixture.add_client, name).id
            for name in ("plain", "some", "none", "receiver", "follower")
        }
        subscribe(self.database, ids["some"], f'["{A}"]')
        subscribe(self.database, ids["none"], '["urn:example:c"]')
        add_stream(self.database, ids["receiver"], f'["{SESSION_REVOKED}", "{A}"]')
        stream = add_stream(self.database, ids["follower"], f'["{SESSION_REVOKED}"]', all_subjects=False)
        set_subject_preference(self.database, stream, ADA)
        self.database.on_commit(self._commit_events.extend)

    def state(self) -> dict[str, Any]:
        found = {name: self.database.read_now(_all, Query(name, text)) for name, text in TABLES.items()}
        to_sign = sum(event.rows for event in self._commit_events if isinstance(event, EventsToSign))
        return {**{name: [self._normalized(row) for row in rows] for name, rows in found.items()}, "to_sign": to_sign}

    def texts(self, outcomes: Sequence[IdempotentResult | Failed]) -> list[str]:
        return [self._text(outcome) for outcome in outcomes]

    def _text(self, outcome: IdempotentResult | Failed) -> str:
        if isinstance(outcome, Failed):
            assert isinstance(outcome.error, RestanteError)
            return repr(outcome.error)
        return f"{self._normalized(outcome.json.decode())} {outcome.is_replayed}"

    def _normalized(self, value: object) -> str:
        """With random ids replaced."""
        return _RANDOM_ID.sub(lambda found: self._numbers.setdefault(found[0], f"id {len(self._numbers)}"), repr(value))


def _all(conn: Connection, query: Query) -> list[tuple[Any, ...]]:
    return conn.values(query)


def publish_one_by_one(conn: Connection, requests: list[PublishRequest]) -> list[IdempotentResult | Failed]:
    return [outcome for request in requests for outcome in publish_batch(conn, [request])]


def test_batch_equals_single_requests(fresh: FreshDatabases) -> None:
    @settings(max_examples=fresh.scale(40) * EXAMPLES_FACTOR)
    @given(batches)
    def check(batches: list[list[PublishRequest]]) -> None:
        clock = ManualClock()
        batched, single = PublishingDatabase(fresh.new(clock)), PublishingDatabase(fresh.new(clock, 1))
        try:
            for batch in batches:
                outcomes = (
                    batched.database.write_now(publish_batch, batch),
                    single.database.write_now(publish_one_by_one, batch),
                )
                # The rows first: their order determines the numbers of the ids.
                assert batched.state() == single.state()
                assert batched.texts(outcomes[0]) == single.texts(outcomes[1])
        finally:
            batched.database.close()
            single.database.close()

    check()
