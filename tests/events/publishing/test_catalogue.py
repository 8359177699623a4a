"""The default event types: all of CAEP and RISC, each once, with valid names."""

from restante.events.publishing.catalogue import (
    CAEP_EVENTS,
    RISC_EVENTS,
    STREAM_UPDATED,
    SUPPORTED_BY_DEFAULT,
    VERIFICATION,
)
from restante.events.publishing.token_claims import is_event_type


def test_all_types_of_both_profiles_are_listed_once() -> None:
    assert len(CAEP_EVENTS) == 8
    assert len(RISC_EVENTS) == 14
    assert len(set(SUPPORTED_BY_DEFAULT)) == 22


def test_types_are_valid_event_types() -> None:
    assert all(is_event_type(name) for name in (*SUPPORTED_BY_DEFAULT, VERIFICATION, STREAM_UPDATED))


def test_framework_types_are_not_in_the_default_list() -> None:
    assert not {VERIFICATION, STREAM_UPDATED} & set(SUPPORTED_BY_DEFAULT)
