"""The pages of devices: filters, saved filters, one device, and every action on it with its audit record."""

import re

import pytest

from restante.console import pages
from restante.database.paging import PageRequest
from restante.identity import access_audit
from restante.updates.devices import devices
from restante.updates.install import install_configs
from tests.console.console_server import ConsoleClient, ConsoleServer, eventually
from tests.identity.people_and_devices import PASSWORD


def recorded(server: ConsoleServer, event: str) -> list[tuple[str, str]]:
    changes = server.database.read_now(access_audit.list_page, None, None, PageRequest(500, 0)).items
    return [(change.actor, bytes(change.detail).decode()) for change in changes if change.event == event]


def listed(page: str) -> set[int]:
    return {int(each) for each in re.findall(r'<th scope="row"[^>]*><a href="/console/devices/(\d+)"', page)}


def test_list_is_filtered_and_counted(server: ConsoleServer) -> None:
    first, second = server.add_device("filter-one"), server.add_device("filter-two")
    with server.client("fleet") as fleet:
        assert listed(fleet.get("/console/devices?name=filter-").text) == {first, second}
        page = fleet.get("/console/devices?name=filter-one&status=&tag=").text
        assert listed(page) == {first}
        assert "1 device matches" in page
        assert 'href="/apiv1/devices/export?name=filter-one"' in page
        assert fleet.get("/apiv1/devices/export?name=filter-one").text.count("filter-one") == 1


def test_wrong_filter_names_the_field_and_keeps_what_was_typed(server: ConsoleServer) -> None:
    with server.client("fleet") as fleet:
        response = fleet.get("/console/devices?seen_before=yesterday")
        assert response.status_code == 400
        assert "Seen_before: expected a time" in response.text
        assert 'value="yesterday"' in response.text


def test_overview_does_not_wait_until_the_fleet_is_counted(
    server: ConsoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_id = server.add_person("uncounted", "viewer@updates")
    server.add_device("uncounted-till", user_id)
    server.user_ids["counting"] = server.add_person("counting", f"viewer@updates:{user_id}")
    monkeypatch.setattr(pages, "COUNT_WAIT_SECONDS", 0)
    with server.client("counting") as client:
        # Nobody has counted the devices of this user before.
        page = client.get("/console").text
        assert "The devices are being counted" in page
        assert "Nothing needs attention" not in page
        eventually(lambda: "The devices are being counted" not in client.get("/console").text)


def test_filter_is_saved_under_a_name_and_deleted(server: ConsoleServer) -> None:
    device_id = server.add_device("saved-one")
    with server.client("fleet") as fleet:
        done = fleet.post("/console/devices/groups", name="saved-", group_name="Saved tills")
        assert done.headers["location"] == "/console/devices?group=Saved+tills&done=group-saved"
        page = fleet.get("/console/devices?group=Saved+tills").text
        assert listed(page) == {device_id}
        refused = fleet.post("/console/devices/groups", name="saved-", group_name="Saved tills")
        assert refused.status_code == 409
        assert "already" in refused.text
        delete = re.search(r"/console/devices/groups/(\d+)/delete", page)
        assert delete
        assert fleet.post(delete[0]).status_code == 303
        assert "Saved tills" not in fleet.get("/console/devices").text


def test_tag_is_added_and_removed(server: ConsoleServer) -> None:
    device_id = server.add_device("tagged")
    path = f"/console/devices/{device_id}"
    with server.client("fleet") as fleet:
        assert fleet.post(f"{path}/tags", tag="blue").status_code == 303
        assert listed(fleet.get("/console/devices?tag=blue").text) == {device_id}
        assert fleet.post(f"{path}/tags/remove", tag="blue").status_code == 303
        assert listed(fleet.get("/console/devices?tag=blue").text) == set()
        assert fleet.post(f"{path}/tags", tag="no spaces").status_code == 400


def test_page_shows_config_certificates_authorities_and_signals(server: ConsoleServer) -> None:
    device_id = server.add_full_device("shown-device")
    server.live.wait_until(lambda: server.node.outbox.dispatcher.counters.delivered >= 3)
    with server.client("fleet") as fleet:
        page = fleet.get(f"/console/devices/{device_id}").text
    for text in ("shown-device", "till.example.com", "Workshop CA", "new path", "install.updated", "owner@example.com"):
        assert text in page


def test_version_shows_the_difference(server: ConsoleServer) -> None:
    device_id = server.add_full_device("diffed")
    with server.client("fleet") as fleet:
        page = fleet.get(f"/console/devices/{device_id}/config/2").text
        assert re.search(r'class="diff-removed".*?/etc/ssl/site\.pem', page, re.S)
        assert re.search(r'class="diff-added".*?/etc/ssl/private/site\.pem', page, re.S)
        assert fleet.get(f"/console/devices/{device_id}/config/9").status_code == 404


def test_config_is_stored_with_the_person_and_refused_if_outdated(server: ConsoleServer) -> None:
    device_id = server.add_full_device("edited")
    path = f"/console/devices/{device_id}/config/new"
    items = '[{"id": "site", "type": "copy", "from": ["a"], "to": ["b"]}]'
    with server.client("fleet") as fleet:
        assert fleet.post(path, installs=items, note="third", version="2").status_code == 303
        outdated = fleet.post(path, installs=items, note="lost", version="2")
        assert outdated.status_code == 409
        assert "at version 3, not 2" in outdated.text
        assert "lost" in outdated.text
        for wrong in ("{", '{"id": 1}', '[{"id": "x"}]', "[1]"):
            response = fleet.post(path, installs=wrong, version="3")
            assert response.status_code == 400
            assert "nstalls" in response.text
        assert fleet.post(f"/console/devices/{device_id}/config/1/restore", expected="3").status_code == 303
    config = server.database.read_now(install_configs.current, device_id)
    assert (config.version, config.updated_by) == (4, "fleet@example.com")


def test_signal_is_sent_and_recorded(server: ConsoleServer) -> None:
    device_id = server.add_device("signalled")
    path = f"/console/devices/{device_id}/signals"
    with server.client("fleet") as fleet:
        assert fleet.post(path, type="app.refresh", ref='{"id": 7}').status_code == 303
        refused = fleet.post(path, type="app.refresh", ref="[]")
        assert refused.status_code == 400
        assert "Ref: expected a JSON object" in refused.text
    expected = ("fleet@example.com", f'{{"device_id":{device_id},"type":"app.refresh"}}')
    assert recorded(server, "device.signal_sent") == [expected]


@pytest.mark.parametrize("kind", ["certificate", "authority"])
def test_certificate_and_authority_are_assigned_and_unassigned(server: ConsoleServer, kind: str) -> None:
    device_id = server.add_full_device(f"assigned-{kind}")
    field, plural = ("cert_id", "certificates") if kind == "certificate" else ("ca_id", "authorities")
    path = f"/console/devices/{device_id}/{plural}"
    with server.client("fleet") as fleet:
        page = fleet.get(f"/console/devices/{device_id}").text
        held = re.search(rf"{path}/(\d+)/unassign", page)
        assert held
        assert fleet.post(held[0]).status_code == 303
        assert held[0] not in fleet.get(f"/console/devices/{device_id}").text
        assert fleet.post(path, **{field: held[1]}).status_code == 303
        assert held[0] in fleet.get(f"/console/devices/{device_id}").text
        assert fleet.post(path, **{field: "999999"}).status_code == 404
    detail = f'{{"device_id":{device_id},"{field}":{held[1]}}}'
    assert ("fleet@example.com", detail) in recorded(server, f"device.{kind}_assigned")
    assert ("fleet@example.com", detail) in recorded(server, f"device.{kind}_unassigned")


def test_revocation_asks_for_the_password_again(server: ConsoleServer) -> None:
    device_id = server.add_device("revoked")
    path = f"/console/devices/{device_id}/revoke"
    with server.client("fleet") as fleet:
        server.outdate_password(fleet.session)
        asked = fleet.post(path)
        assert asked.status_code == 200
        assert "This cannot be undone" in asked.text
        assert status(server, device_id) == "active"
        wrong = fleet.post(path, confirm_password="not the password")
        assert wrong.status_code == 401
        assert "The password is wrong." in wrong.text
        assert status(server, device_id) == "active"
        assert fleet.post(path, confirm_password=PASSWORD).status_code == 303
    assert status(server, device_id) == "revoked"
    assert ("fleet@example.com", f'{{"device_id":{device_id}}}') in recorded(server, "device.revoked")


def test_password_counts_for_some_minutes(server: ConsoleServer) -> None:
    first, second = server.add_device("revoked-first"), server.add_device("revoked-second")
    with server.client("fleet") as fleet:
        server.outdate_password(fleet.session)
        assert fleet.post(f"/console/devices/{first}/revoke", confirm_password=PASSWORD).status_code == 303
        assert fleet.post(f"/console/devices/{second}/revoke").status_code == 303
    assert status(server, second) == "revoked"


def test_revoked_device_offers_no_action(server: ConsoleServer) -> None:
    device_id = server.add_device("gone")
    server.database.write_now(devices.revoke, device_id)
    with server.client("fleet") as fleet:
        page = fleet.get(f"/console/devices/{device_id}").text
        assert f'action="/console/devices/{device_id}' not in page
        refused = fleet.post(f"/console/devices/{device_id}/signals", type="app.x", ref="{}")
        assert refused.status_code == 409


def test_person_sees_and_changes_devices_within_the_grants_only(server: ConsoleServer) -> None:
    foreign = server.add_device("foreign-device")
    server.user_ids["reader"] = server.add_person("reader", f"viewer@updates:{server.owner_id}")
    other_user = server.user_ids["admin"]
    hidden = server.add_device("hidden-device", other_user)
    with server.client("reader") as reader:
        assert foreign in listed(reader.get("/console/devices?name=foreign").text)
        assert listed(reader.get("/console/devices?name=hidden").text) == set()
        assert reader.get(f"/console/devices/{foreign}").status_code == 200
        assert f'action="/console/devices/{foreign}' not in reader.get(f"/console/devices/{foreign}").text
        assert reader.get(f"/console/devices/{hidden}").status_code == 404
        assert "hidden-device" not in search(reader, str(hidden))
        assert reader.post(f"/console/devices/{foreign}/revoke").status_code == 403
        assert reader.post(f"/console/devices/{hidden}/revoke").status_code == 403
    assert (status(server, foreign), status(server, hidden)) == ("active", "active")


def test_device_is_found_by_the_id_that_it_chose(server: ConsoleServer) -> None:
    device_id = server.add_device("searched")
    public_id = server.database.read_now(devices.get, device_id).device_public_id
    with server.client("fleet") as fleet:
        assert fleet.get(f"/console/search?q={public_id}").headers["location"] == f"/console/devices/{device_id}"


def status(server: ConsoleServer, device_id: int) -> str:
    return server.database.read_now(devices.get, device_id).status


def search(client: ConsoleClient, text: str) -> str:
    return client.get(f"/console/search?q={text}").text


def test_search_finds_devices_by_name_and_certificates_by_domain(server: ConsoleServer) -> None:
    device_id = server.add_full_device("search-me-please")
    with server.client("fleet") as fleet:
        found = fleet.get("/console/search?q=search-me")
        assert found.headers["location"] == f"/console/devices/{device_id}"
        page = fleet.get("/console/search?q=till.example.com").text
        assert f"/console/devices/{device_id}#certificates" in page
    with server.client("bank") as bank:
        assert "Nothing found" in bank.get("/console/search?q=search-me").text
        assert "Nothing found" in bank.get("/console/search?q=till.example.com").text
