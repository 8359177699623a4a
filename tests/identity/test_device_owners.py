from restante.database.database import Database
from restante.identity import device_owners
from restante.updates import devices
from tests.identity.population import add_device, add_user


def test_only_an_active_device_of_that_user_counts(database: Database) -> None:
    ada, ben = add_user(database), add_user(database, "ben@example.com")
    device = add_device(database, ada)
    assert database.read_now(device_owners.is_active, device, ada)
    assert not database.read_now(device_owners.is_active, device, ben)
    assert not database.read_now(device_owners.is_active, device + 1, ada)
    database.write_now(devices.revoke, device)
    assert not database.read_now(device_owners.is_active, device, ada)
