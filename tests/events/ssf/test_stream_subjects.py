"""Subjects of a stream: the last preference counts, a stream follows itself, and invalid subjects are refused."""

import dataclasses
from typing import Any

import pytest

from restante.core.errors import BadInput, NotAllowed, NotFound
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.publishing import publishing
from restante.events.publishing.catalogue import CAEP_EVENTS
from restante.events.publishing.publishing import EventRequest
from restante.events.ssf import stream_subjects, streams
from restante.events.ssf.stream_subjects import SubjectPreference
from restante.events.ssf.streams import Stream, StreamRequest
from tests.events.default_options import stream_rules
from tests.events.push_fixture import add_client

USER = {"format": "email", "email": "user@example.com"}
OTHER = {"format": "email", "email": "other@example.com"}

_COUNT = Query("count", "SELECT COUNT(*) AS count FROM event_stream_subjects")


def add_stream(database: Database, *, all_subjects: bool) -> Stream:
    rules = stream_rules(all_subjects=all_subjects)
    return database.write_now(streams.create, rules, add_client(database), StreamRequest())


def set_preference(database: Database, stream: Stream, preference: SubjectPreference, subjects_max: int = 100) -> None:
    database.write_now(stream_subjects.set_preference, stream.client, stream.public_id, preference, subjects_max)


def add(database: Database, stream: Stream, subject: dict[str, Any]) -> None:
    set_preference(database, stream, SubjectPreference(subject, is_added=True))


def remove(database: Database, stream: Stream, subject: dict[str, Any]) -> None:
    set_preference(database, stream, SubjectPreference(subject, is_added=False))


def receives_events_about(database: Database, stream: Stream, subject: dict[str, Any]) -> bool:
    event = EventRequest(client_id=stream.client_id, sub_id=subject, events={CAEP_EVENTS[0]: {}})
    return database.write_now(publishing.publish, event) != []


@pytest.mark.parametrize("all_subjects", [True, False])
def test_last_preference_counts(database: Database, all_subjects: bool) -> None:
    stream = add_stream(database, all_subjects=all_subjects)
    assert receives_events_about(database, stream, USER) is all_subjects
    for _ in range(2):
        remove(database, stream, USER)
        assert not receives_events_about(database, stream, USER)
        assert receives_events_about(database, stream, OTHER) is all_subjects
        add(database, stream, {"email": "user@example.com", "format": "email"})
        assert receives_events_about(database, stream, USER)


def test_number_of_subjects_is_limited(database: Database) -> None:
    stream = add_stream(database, all_subjects=False)
    set_preference(database, stream, SubjectPreference(USER, is_added=True), 2)
    set_preference(database, stream, SubjectPreference(OTHER, is_added=False), 2)
    third = {"format": "email", "email": "third@example.com"}
    for is_added in (True, False):
        with pytest.raises(NotAllowed, match="subject: the stream already has 2 subjects"):
            set_preference(database, stream, SubjectPreference(third, is_added=is_added), 2)
    assert _count(database) == 2
    # Existing preferences can still be changed, and another stream has its own limit.
    set_preference(database, stream, SubjectPreference(OTHER, is_added=True), 2)
    assert receives_events_about(database, stream, OTHER)
    set_preference(database, add_stream(database, all_subjects=False), SubjectPreference(third, is_added=True), 2)
    assert _count(database) == 3


def test_stream_always_follows_itself(database: Database) -> None:
    stream = add_stream(database, all_subjects=True)
    remove(database, stream, {"format": "opaque", "id": stream.public_id})
    assert _count(database) == 0


def test_foreign_stream_is_not_found(database: Database) -> None:
    stream = add_stream(database, all_subjects=True)
    with pytest.raises(NotFound):
        set_preference(
            database, dataclasses.replace(stream, client=add_client(database)), SubjectPreference(USER, is_added=False)
        )


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
def test_invalid_subject_is_refused_and_not_stored(database: Database, subject: dict[str, Any]) -> None:
    stream = add_stream(database, all_subjects=True)
    with pytest.raises(BadInput, match="subject"):
        add(database, stream, subject)
    assert _count(database) == 0


def _count(database: Database) -> int:
    row = database.read_now(lambda conn: conn.one(_COUNT))
    assert row is not None
    return int(row["count"])
