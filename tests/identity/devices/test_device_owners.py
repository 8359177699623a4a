from restante.database.database import Database
from restante.identity.devices import device_owners
from restante.updates.devices import devices
from tests.identity.people_and_devices import add_device, add_user


def test_only_active_device_of_the_user_is_active(database: Database) -> None:
    ada, ben = add_user(database), add_user(database, "ben@example.com")
    device = add_device(database, ada)
    assert database.read_now(device_owners.is_active, device, ada)
    assert not database.read_now(device_owners.is_active, device, ben)
    assert not database.read_now(device_owners.is_active, device + 1, ada)
    database.write_now(devices.revoke, device)
    assert not database.read_now(device_owners.is_active, device, ada)
