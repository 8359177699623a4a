"""The pages of the outbox: what they show to whom, and the retry of failed rows."""

from restante.database.paging import PageRequest
from restante.identity import access_audit
from tests.console.console_server import ConsoleClient, ConsoleServer


def test_list_shows_rows_of_a_state_and_the_counts(server: ConsoleServer) -> None:
    row_id = server.add_failed_row(server.add_device("listed"))
    with server.client("fleet") as fleet:
        page = fleet.get("/console/outbox?status=FAILED").text
        assert f'href="/console/outbox/{row_id}"' in page
        assert "there is no device 7" in page
        assert f'href="/console/outbox/{row_id}"' not in fleet.get("/console/outbox?status=DELIVERED").text
        assert fleet.get("/console/outbox?status=odd").status_code == 400


def test_pages_follow_each_other_by_key(server: ConsoleServer) -> None:
    device_id = server.add_device("paged")
    rows = [server.add_failed_row(device_id) for _ in range(3)]
    with server.client("fleet") as fleet:
        first = fleet.get(f"/console/outbox?device={device_id}&limit=2").text
        assert f"/console/outbox/{rows[2]}" in first
        assert f"/console/outbox/{rows[0]}" not in first
        assert f'rel="next" href="/console/outbox?device={device_id}&amp;limit=2&amp;after={rows[1]}"' in first
        assert f"/console/outbox/{rows[0]}" in fleet.get(f"/console/outbox?device={device_id}&after={rows[1]}").text


def test_retry_makes_the_row_pending_and_records_the_person(server: ConsoleServer) -> None:
    row_id = server.add_failed_row(server.add_device("retried"))
    with server.client("fleet") as fleet:
        done = fleet.post(f"/console/outbox/{row_id}/retry")
        assert (done.status_code, done.headers["location"]) == (303, f"/console/outbox/{row_id}?done=row-retried")
        again = fleet.post(f"/console/outbox/{row_id}/retry")
        assert again.status_code == 409
        assert "only a failed one can be retried" in again.text
    changes = server.database.read_now(access_audit.list_page, None, None, PageRequest(100, 0)).items
    recorded = [(change.actor, bytes(change.detail)) for change in changes if change.event == "outbox.retried"]
    assert ("fleet@example.com", b'{"source":"server","row_ids":[%d]}' % row_id) in recorded


def test_person_sees_rows_of_own_devices_only(server: ConsoleServer) -> None:
    own_id = server.add_person("owner-of-rows", "operator@all")
    server.user_ids["owner-of-rows"] = own_id
    own_row = server.add_failed_row(server.add_device("own", own_id))
    foreign_row = server.add_failed_row(server.add_device("foreign"))
    with server.client("owner-of-rows") as owner:
        page = owner.get("/console/outbox").text
        assert f'href="/console/outbox/{own_row}"' in page
        assert f'href="/console/outbox/{foreign_row}"' not in page
        assert owner.get(f"/console/outbox/{foreign_row}").status_code == 404
        assert owner.post(f"/console/outbox/{foreign_row}/retry").status_code == 404
        assert f"/console/outbox/{foreign_row}" not in found(owner, foreign_row)
        assert f"/console/outbox/{own_row}" in found(owner, own_row)


def found(client: ConsoleClient, row_id: int) -> str:
    """The page that a search for the row shows, or, if only one thing has this id, the path that it leads to."""
    response = client.get(f"/console/search?q={row_id}")
    return str(response.headers.get("location", response.text))


def test_person_without_a_grant_for_devices_has_no_outbox(server: ConsoleServer) -> None:
    row_id = server.add_failed_row(server.add_device("hidden"))
    with server.client("viewer") as viewer:
        assert viewer.get("/console/outbox").status_code == 404
        assert viewer.get(f"/console/outbox/{row_id}").status_code == 404
        assert viewer.post(f"/console/outbox/{row_id}/retry").status_code == 403
        overview = viewer.get("/console").text
        assert "Nothing needs attention" in overview
        assert "/console/outbox" not in overview
