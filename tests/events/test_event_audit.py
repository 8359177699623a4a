from restante.database.database import Database
from restante.events import event_audit
from restante.web.paging import Window
from tests.conftest import START_MS


def test_what_was_done_is_listed_newest_first(database: Database) -> None:
    for n, client_id in enumerate(["a", "b", "a"]):
        database.write_now(event_audit.record, "me", f"done.{n}", client_id, {"n": n})
    page = database.read_now(event_audit.list_page, None, Window(2, 0))
    assert [(each.event, each.client_id, each.actor, each.at_ms) for each in page.items] == [
        ("done.2", "a", "me", START_MS),
        ("done.1", "b", "me", START_MS),
    ]
    assert bytes(page.items[0].detail) == b'{"n":2}'
    rest = database.read_now(event_audit.list_page, None, Window(2, page.next or 0))
    assert [each.event for each in rest.items] == ["done.0"]
    assert rest.next is None


def test_of_one_client(database: Database) -> None:
    for client_id in ("a", "b", None):
        database.write_now(event_audit.record, "me", "done", client_id, {})
    page = database.read_now(event_audit.list_page, "b", Window(10, 0))
    assert [each.client_id for each in page.items] == ["b"]
