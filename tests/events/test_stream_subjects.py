"""Whom a stream follows: the last word counts, the stream itself is always followed, and odd subjects are refused."""

from typing import Any

import pytest

from restante.core.errors import BadInput, NotAllowed, NotFound
from restante.database.database import Database
from restante.database.queries import Query
from restante.events import publishing, stream_subjects, streams
from restante.events.event_catalogue import CAEP_EVENTS, SUPPORTED_BY_DEFAULT
from restante.events.publishing import EventWish
from restante.events.stream_subjects import Word
from restante.events.streams import Stream, StreamRules, StreamWish
from tests.events.pushing import add_client

USER = {"format": "email", "email": "user@example.com"}
OTHER = {"format": "email", "email": "other@example.com"}

_COUNT = Query("count", "SELECT COUNT(*) AS count FROM event_stream_subjects")


def add_stream(database: Database, *, all_subjects: bool) -> Stream:
    rules = StreamRules(SUPPORTED_BY_DEFAULT, all_subjects)
    return database.write_now(streams.create, rules, add_client(database), StreamWish())


def say(database: Database, stream: Stream, word: Word, subjects_max: int = 100) -> None:
    database.write_now(stream_subjects.say, stream.client, stream.public_id, word, subjects_max)


def add(database: Database, stream: Stream, subject: dict[str, Any]) -> None:
    say(database, stream, Word(subject, is_added=True))


def remove(database: Database, stream: Stream, subject: dict[str, Any]) -> None:
    say(database, stream, Word(subject, is_added=False))


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


def test_so_many_subjects_and_no_more(database: Database) -> None:
    stream = add_stream(database, all_subjects=False)
    say(database, stream, Word(USER, is_added=True), 2)
    say(database, stream, Word(OTHER, is_added=False), 2)
    third = {"format": "email", "email": "third@example.com"}
    for is_added in (True, False):
        with pytest.raises(NotAllowed, match="subject: the stream has named 2 subjects"):
            say(database, stream, Word(third, is_added=is_added), 2)
    assert _count(database) == 2
    # Of those that were named, the last word counts as ever; and another stream has room of its own.
    say(database, stream, Word(OTHER, is_added=True), 2)
    assert is_told_of(database, stream, OTHER)
    say(database, add_stream(database, all_subjects=False), Word(third, is_added=True), 2)
    assert _count(database) == 3


def test_the_stream_itself_is_always_followed(database: Database) -> None:
    stream = add_stream(database, all_subjects=True)
    remove(database, stream, {"format": "opaque", "id": stream.public_id})
    assert _count(database) == 0


def test_anothers_stream_is_not_there(database: Database) -> None:
    stream = add_stream(database, all_subjects=True)
    with pytest.raises(NotFound):
        say(database, stream._replace(client=add_client(database)), Word(USER, is_added=False))


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
    assert _count(database) == 0


def _count(database: Database) -> int:
    row = database.read_now(lambda conn: conn.one(_COUNT))
    assert row is not None
    return int(row["count"])
