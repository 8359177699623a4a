import pytest

from restante.core.errors import Conflict, NotFound
from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.inbox.inbox import InboxChanged
from restante.events.publishing import errored_events, event_audit, listing
from restante.events.publishing.errored_events import Resolution
from restante.events.push import receivers
from tests.conftest import START_MS
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient
from tests.events.operator_app import poll_jtis
from tests.events.publish_fixture import inbox_rows


@pytest.fixture
def tpp(database: Database) -> PollingClient:
    """A client that reported the events `a` and `b` as errored."""
    tpp = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.put_ready, tpp.id, "a", "b", "c")
    database.write_now(inbox_fixture.deliver, tpp.id, "a", "b")
    database.write_now(inbox_fixture.report_errors, tpp.id, {"a": ("jwtIss", "no"), "b": ("jwtAud", "no")})
    return tpp


def test_released_event_is_delivered_again_with_the_same_bytes(database: Database, tpp: PollingClient) -> None:
    before = inbox_rows(database)[0]["text"]
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    database.write_now(errored_events.resolve, Resolution.release, "a", "ada")
    assert poll_jtis(database, tpp.id) == ["a", "c"]
    row = inbox_rows(database)[0]
    assert (row["text"], row["err"], row["errored_at"], row["push_at"]) == (before, None, None, None)
    assert any(isinstance(event, InboxChanged) and event.client == tpp.id for event in commit_events)


def test_released_event_is_pushed_again_if_the_client_has_a_receiver(database: Database, tpp: PollingClient) -> None:
    database.write_now(receivers.set_receiver, tpp.id, "open-banking", "https://tpp.example/cb")
    database.write_now(errored_events.resolve, Resolution.release, "a", "ada")
    assert inbox_rows(database)[0]["push_at"] == START_MS


def test_dropped_event_is_not_delivered_again(database: Database, tpp: PollingClient) -> None:
    database.write_now(errored_events.resolve, Resolution.drop, "a", "ada")
    assert poll_jtis(database, tpp.id) == ["c"]
    shown = database.read_now(listing.show, "a")
    assert (shown.status, shown.finished_at, shown.err) == ("dropped", iso_precise(START_MS), "jwtIss")


@pytest.mark.parametrize(("resolution", "left"), [(Resolution.release, ["a", "b", "c"]), (Resolution.drop, ["c"])])
def test_all_errored_events_of_a_client_are_resolved(
    database: Database, tpp: PollingClient, resolution: Resolution, left: list[str]
) -> None:
    other = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.put_ready, other.id, "x")
    database.write_now(inbox_fixture.report_errors, other.id, {"x": ("e", "d")})
    assert database.write_now(errored_events.resolve_all, resolution, tpp.client_id, "ada") == 2
    assert database.write_now(errored_events.resolve_all, resolution, tpp.client_id, "ada") == 0
    assert poll_jtis(database, tpp.id) == left
    assert inbox_fixture.status_of(database, "x") == "errored"


@pytest.mark.parametrize("resolution", Resolution)
def test_event_that_is_not_errored_is_refused(database: Database, tpp: PollingClient, resolution: Resolution) -> None:
    before = inbox_rows(database)
    with pytest.raises(Conflict, match="ready"):
        database.write_now(errored_events.resolve, resolution, "c", "ada")
    with pytest.raises(NotFound):
        database.write_now(errored_events.resolve, resolution, "unknown", "ada")
    with pytest.raises(NotFound):
        database.write_now(errored_events.resolve_all, resolution, "nobody", "ada")
    assert inbox_rows(database) == before
    assert tpp.client_id


def test_resolutions_are_recorded_in_the_audit_log(database: Database, tpp: PollingClient) -> None:
    database.write_now(errored_events.resolve, Resolution.release, "a", "ada")
    database.write_now(errored_events.resolve_all, Resolution.drop, tpp.client_id, "bob")
    found = database.read_now(event_audit.list_page, tpp.client_id, PageRequest(10, 0)).items
    assert [(row.actor, row.event) for row in found[:2]] == [("bob", "events.dropped"), ("ada", "event.released")]


def test_several_events_are_resolved_together_or_not_at_all(database: Database, tpp: PollingClient) -> None:
    with pytest.raises(Conflict):
        database.write_now(errored_events.resolve_some, Resolution.drop, ["a", "c"], "ada")
    assert inbox_fixture.status_of(database, "a") == "errored"
    assert database.write_now(errored_events.resolve_some, Resolution.drop, ["a", "b", "a"], "ada") == 2
    assert poll_jtis(database, tpp.id) == ["c"]
