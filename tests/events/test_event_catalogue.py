"""The event types that are offered: of CAEP and RISC, each once, and names that events can have."""

from restante.events.claims import is_event_type
from restante.events.event_catalogue import CAEP_EVENTS, RISC_EVENTS, STREAM_UPDATED, SUPPORTED_BY_DEFAULT, VERIFICATION


def test_the_types_of_both_profiles_are_there_once() -> None:
    assert len(CAEP_EVENTS) == 8
    assert len(RISC_EVENTS) == 14
    assert len(set(SUPPORTED_BY_DEFAULT)) == 22


def test_they_are_names_that_events_can_have() -> None:
    assert all(is_event_type(name) for name in (*SUPPORTED_BY_DEFAULT, VERIFICATION, STREAM_UPDATED))


def test_the_frameworks_own_are_not_asked_for() -> None:
    assert not {VERIFICATION, STREAM_UPDATED} & set(SUPPORTED_BY_DEFAULT)
