from uuid import uuid4

import pytest

from restante.core.errors import NotAllowed, NotFound
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import revocation_counter
from restante.identity.callers import DeviceRevoked
from restante.updates.devices import devices
from tests.conftest import START_MS, ManualClock
from tests.identity.people_and_devices import add_device, add_user, details


def wraps_of(conn: Connection, device_id: int) -> list[tuple[bytes, bytes]]:
    query = Query("wraps", "SELECT enc_data_key, device_keyfp FROM cert_record_devices WHERE device_id = :device_id")
    return [(row["enc_data_key"], row["device_keyfp"]) for row in conn.all(query, device_id=device_id)]


def add_wrap(conn: Connection, user_id: int, device_id: int) -> None:
    conn.run(
        Query(
            "certificate",
            "INSERT INTO cert_records (user_id, domain_name, sans, created_at, updated_at) "
            "VALUES (:user_id, 'a.example', '[]', 0, 0)",
        ),
        user_id=user_id,
    )
    conn.run(
        Query(
            "wrap",
            "INSERT INTO cert_record_devices "
            "(cert_record_id, device_id, device_keyfp, wrap_alg, enc_data_key, assigned_at) "
            "SELECT MAX(id), :device_id, :keyfp, 'x25519', :wrapped, 0 FROM cert_records",
        ),
        device_id=device_id,
        keyfp=b"old fingerprint",
        wrapped=b"w" * 80,
    )


def test_registered_device_is_found(database: Database, user_id: int) -> None:
    description = details(platform="linux", model="m1", app_version="1.0", name="kiosk")
    device = database.write_now(devices.register, user_id, description)
    assert database.read_now(devices.get, device.id) == device
    assert database.read_now(devices.get, device.id, user_id) == device
    assert (device.user_id, device.device_public_id) == (user_id, description.device_public_id)
    assert (device.platform, device.model, device.app_version, device.name) == ("linux", "m1", "1.0", "kiosk")
    assert device.status == "active"
    assert device.created_at == device.updated_at == iso_precise(START_MS)
    assert (device.last_seen_at, device.revoked_at, device.agent_version) == (None, None, None)


def test_second_registration_keeps_the_row_and_missing_values(
    database: Database, clock: ManualClock, user_id: int
) -> None:
    public_id = str(uuid4())
    first = database.write_now(devices.register, user_id, details(public_id, name="kiosk", model="m1"))
    clock.advance(5)
    again = database.write_now(devices.register, user_id, details(public_id, model="m2"))
    assert again.id == first.id
    assert (again.name, again.model) == ("kiosk", "m2")
    assert again.device_keyfp_b64 != first.device_keyfp_b64
    assert (again.created_at, again.updated_at) == (iso_precise(START_MS), iso_precise(START_MS + 5000))


def test_same_public_id_of_two_users_is_two_devices(database: Database, user_id: int) -> None:
    public_id = str(uuid4())
    other = add_user(database, "ben@example.com")
    other_device, own_device = (
        database.write_now(devices.register, user, details(public_id)) for user in (other, user_id)
    )
    assert other_device.id != own_device.id
    assert (other_device.user_id, own_device.user_id) == (other, user_id)


def test_new_key_makes_wrapped_data_keys_pending_again(database: Database, user_id: int) -> None:
    description = details(str(uuid4()))
    device = database.write_now(devices.register, user_id, description)
    bystander = add_device(database, user_id)
    for device_id in (device.id, bystander):
        database.write_now(add_wrap, user_id, device_id)
    wrapped = [(b"w" * 80, b"old fingerprint")]
    database.write_now(devices.register, user_id, description)
    assert database.read_now(wraps_of, device.id) == wrapped
    renewed = details(description.device_public_id)
    database.write_now(devices.register, user_id, renewed)
    assert database.read_now(wraps_of, device.id) == [(bytes(48), renewed.device_keyfp)]
    assert database.read_now(wraps_of, bystander) == wrapped


def test_revocation_is_final_and_counted_once(database: Database, clock: ManualClock, user_id: int) -> None:
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    description = details()
    device = database.write_now(devices.register, user_id, description)
    before = database.read_now(revocation_counter.current)
    clock.advance(7)
    revoked = database.write_now(devices.revoke, device.id, user_id)
    assert revoked.status == "revoked"
    assert revoked.revoked_at == iso_precise(START_MS + 7000)
    assert DeviceRevoked(device.id) in commit_events
    assert database.read_now(revocation_counter.current) == before + 1
    clock.advance(7)
    assert database.write_now(devices.revoke, device.id) == revoked
    assert commit_events.count(DeviceRevoked(device.id)) == 1
    assert database.read_now(revocation_counter.current) == before + 1
    with pytest.raises(NotAllowed):
        database.write_now(devices.register, user_id, description)


def test_missing_and_foreign_device_give_the_same_error(database: Database, user_id: int) -> None:
    foreign = add_device(database, add_user(database, "ben@example.com"))
    messages = set()
    for device_id in (foreign, 999):
        with pytest.raises(NotFound) as read:
            database.read_now(devices.get, device_id, user_id)
        with pytest.raises(NotFound) as revoked:
            database.write_now(devices.revoke, device_id, user_id)
        messages |= {read.value.message, revoked.value.message}
    assert len(messages) == 1
    assert database.read_now(devices.get, foreign).status == "active"


def test_devices_are_listed_in_pages(database: Database, user_id: int) -> None:
    other = add_user(database, "ben@example.com")
    mine = [add_device(database, user_id) for _ in range(3)]
    others = add_device(database, other)

    def page(user: int | None, after: int, limit: int) -> list[int]:
        return [device.id for device in database.read_now(devices.list_page, user, after, limit)]

    assert page(user_id, 0, 2) == mine[:2]
    assert page(user_id, mine[1], 2) == mine[2:]
    assert page(user_id, mine[2], 2) == []
    assert page(other, 0, 10) == [others]
    assert page(None, 0, 10) == [*mine, others]
