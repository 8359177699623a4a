import re
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.bulk.event_actions import EventAction
from restante.events.publishing import event_audit
from restante.events.publishing.errored_events import Resolution
from tests.conftest import START_MS, ManualClock

DAY = 86_400
EVENTS = (
    "event.published",
    "event.released",
    "event.dropped",
    "event.redelivered",
    "events.released",
    "events.dropped",
)
OTHERS = ("client.registered", "client.rotated", "stream.status_changed", "event_key.rotated", "event_key.withdrawn")
KEPT_TOO = ("client.suspended", "client.resumed", "client.removed", "client.tagged", "client.untagged")
BULK = "event.{self.past_tense}"


def test_actions_are_listed_newest_first(database: Database) -> None:
    for n, client_id in enumerate(["a", "b", "a"]):
        database.write_now(event_audit.record, "me", f"done.{n}", client_id, {"n": n})
    page = database.read_now(event_audit.list_page, None, PageRequest(2, 0))
    assert [(each.event, each.client_id, each.actor, each.at_ms) for each in page.items] == [
        ("done.2", "a", "me", START_MS),
        ("done.1", "b", "me", START_MS),
    ]
    assert bytes(page.items[0].detail) == b'{"n":2}'
    rest = database.read_now(event_audit.list_page, None, PageRequest(2, page.next or 0))
    assert [each.event for each in rest.items] == ["done.0"]
    assert rest.next is None


def test_actions_can_be_filtered_by_client(database: Database) -> None:
    for client_id in ("a", "b", None):
        database.write_now(event_audit.record, "me", "done", client_id, {})
    page = database.read_now(event_audit.list_page, "b", PageRequest(10, 0))
    assert [each.client_id for each in page.items] == ["b"]


def kept(database: Database) -> list[str]:
    return [each.event for each in database.read_now(event_audit.list_page, None, PageRequest(100, 0)).items]


def test_actions_on_events_expire(database: Database, clock: ManualClock) -> None:
    for event in EVENTS:
        database.write_now(event_audit.record, "me", event, "a", {})
    clock.advance(1)
    database.write_now(event_audit.record, "me", "event.published", "a", {})
    clock.advance(DAY - 1)
    assert database.write_now(event_audit.forget_old, DAY) == 0
    clock.advance(0.5)
    assert database.write_now(event_audit.forget_old, DAY) == len(EVENTS)
    assert kept(database) == ["event.published"]


def test_actions_on_clients_keys_and_streams_are_kept(database: Database, clock: ManualClock) -> None:
    for event in (*OTHERS, "event.published"):
        database.write_now(event_audit.record, "me", event, "a", {})
    clock.advance(10_000 * DAY)
    assert database.write_now(event_audit.forget_old, DAY) == 1
    assert kept(database) == [*reversed(OTHERS)]


def test_every_recorded_action_either_expires_or_is_kept() -> None:
    """A new action name must be added to one of the two lists."""
    source = Path(event_audit.__file__).parent.parent
    texts = [path.read_text() for path in source.rglob("*.py")]
    call = r'(?:record\(conn, [\w.]+|NewAction\([\w.]+), f?"([^"]+)"'
    recorded = {name for text in texts for name in re.findall(call, text)}
    names = {name.replace("{resolution}", resolution) for name in recorded - {BULK} for resolution in Resolution}
    names |= {f"event.{each.past_tense}" for each in EventAction.__subclasses__()} if BULK in recorded else set()
    assert names == {*EVENTS, *OTHERS, *KEPT_TOO}


def test_sweep_is_bounded_and_skips_kept_actions(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_audit, "ROWS_MAX", 2)
    for event in (*OTHERS, *EVENTS):
        database.write_now(event_audit.record, "me", event, "a", {})
    clock.advance(1)
    assert [database.write_now(event_audit.forget_old, 0) for _ in range(4)] == [2, 2, 2, 0]
