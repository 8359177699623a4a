"""Whom a stream follows: the last word counts, the stream itself is always followed, and odd subjects are refused."""

from typing import Any

import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.database.queries import Query
from restante.events import publishing, stream_subjects, streams
from restante.events.event_catalogue import CAEP_EVENTS, SUPPORTED_BY_DEFAULT
from restante.events.publishing import EventWish
from restante.events.streams import Stream, StreamRules, StreamWish
from tests.events.pushing import add_client

USER = {"format": "email", "email": "user@example.com"}
OTHER = {"format": "email", "email": "other@example.com"}

_COUNT = Query("count", "SELECT COUNT(*) AS count FROM event_stream_subjects")


def add_stream(database: Database, *, all_subjects: bool) -> Stream:
    rules = StreamRules(SUPPORTED_BY_DEFAULT, all_subjects)
    return database.write_now(streams.create, rules, add_client(database), StreamWish())


def add(database: Database, stream: Stream, subject: dict[str, Any]) -> None:
    database.write_now(stream_subjects.add, stream.client, stream.public_id, subject, is_verified=True)


def remove(database: Database, stream: Stream, subject: dict[str, Any]) -> None:
    database.write_now(stream_subjects.remove, stream.client, stream.public_id, subject)


def is_told_of(database: Database, stream: Stream, subject: dict[str, Any]) -> bool:
    wish = EventWish(client_id=stream.client_id, sub_id=subject, events={CAEP_EVENTS[0]: {}})
    return database.write_now(publishing.publish, wish) != []


@pytest.mark.parametrize("all_subjects", [True, False])
def test_the_last_word_counts(database: Database, all_subjects: bool) -> None:
    stream = add_stream(database, all_subjects=all_subjects)
    assert is_told_of(database, stream, USER) is all_subjects
    for _ in range(2):
        remove(database, stream, USER)
        assert not is_told_of(database, stream, USER)
        assert is_told_of(database, stream, OTHER) is all_subjects
        add(database, stream, {"email": "user@example.com", "format": "email"})
        assert is_told_of(database, stream, USER)


def test_the_stream_itself_is_always_followed(database: Database) -> None:
    stream = add_stream(database, all_subjects=True)
    remove(database, stream, {"format": "opaque", "id": stream.public_id})
    row = database.read_now(lambda conn: conn.one(_COUNT))
    assert row is not None
    assert row["count"] == 0


def test_anothers_stream_is_not_there(database: Database) -> None:
    stream = add_stream(database, all_subjects=True)
    with pytest.raises(NotFound):
        database.write_now(stream_subjects.remove, add_client(database), stream.public_id, USER)


@pytest.mark.parametrize(
    "subject",
    [
        {},
        {"format": 1},
        {"format": "email"},
        {"format": "email", "email": 1},
        {"format": "opaque", "id": "a\0"},
        {"format": "opaque", "id": "\ud800"},
        {"format": "opaque", "id": "a" * 5000},
        {"format": "aliases", "identifiers": []},
    ],
)
def test_what_is_no_subject_is_refused_and_kept_nowhere(database: Database, subject: dict[str, Any]) -> None:
    stream = add_stream(database, all_subjects=True)
    with pytest.raises(BadInput, match="subject"):
        add(database, stream, subject)
    row = database.read_now(lambda conn: conn.one(_COUNT))
    assert row is not None
    assert row["count"] == 0
