import pytest
from cryptography import x509

from restante.core.errors import Conflict, NotFound, Unprocessable
from restante.database.database import Database
from restante.updates import accounts, assignments, authorities, certificates, issuing
from restante.updates.sealing import DATA_KEY_PURPOSE
from tests.conftest import START_MS, ManualClock
from tests.updates.world import Told, World, refuse_to_emit


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def data_key(world: World) -> bytes:
    row = world.query("SELECT sealed_data_key FROM cert_records")[0]
    return world.master_key.open(row["sealed_data_key"], DATA_KEY_PURPOSE)


def test_the_first_issue_tells_nobody(world: World) -> None:
    certificate, device = world.add_certificate(), world.add_device()
    world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    issued = world.issue(certificate.id, 3600)
    assert issued.status == "issued"
    assert (issued.not_before, issued.not_after) == (START_MS // 1000, START_MS // 1000 + 3600)
    assert issued.certificate_pem is not None
    leaf = x509.load_pem_x509_certificate(issued.certificate_pem.encode())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["www.example.com"]
    assert world.signals(device) == []


def test_renewing_has_new_keys_and_tells_every_active_device(world: World, clock: ManualClock) -> None:
    one, two, gone, never = (world.add_device() for _ in range(4))
    certificate = world.add_certificate()
    for device in (one, two, gone):
        world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    first, first_key = world.issue(certificate.id), data_key(world)
    world.revoke_device(gone)
    clock.advance(60)
    second = world.issue(certificate.id)
    assert second.serial != first.serial
    assert second.certificate_pem != first.certificate_pem
    assert data_key(world) != first_key
    assert second.not_before == START_MS // 1000 + 60
    ref = {"cert_id": certificate.id, "serial": second.serial}
    for device in (one, two):
        assert world.signals(device) == [{"type": "cert.renewed", "ref": ref}]
    assert world.signals(gone) == world.signals(never) == []


def test_renewing_sets_the_wraps_back(world: World) -> None:
    certificate, device = world.add_certificate(), world.add_device()
    world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    world.issue(certificate.id)
    world.query("UPDATE cert_record_devices SET enc_data_key = :key", key=b"w" * 80)
    world.issue(certificate.id)
    assert world.query("SELECT enc_data_key FROM cert_record_devices")[0]["enc_data_key"] == bytes(48)


def test_telling_and_renewing_are_one(world: World) -> None:
    certificate, device = world.add_certificate(), world.add_device()
    world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    first = world.issue(certificate.id)
    plan = world.database.read_now(issuing.plan, world.user_id, certificate.id)
    material = issuing.carry_out(plan, world.master_key, 300)
    with pytest.raises(Told):
        world.database.write_now(issuing.store, refuse_to_emit, plan, material)
    assert world.database.read_now(certificates.get, world.user_id, certificate.id).serial == first.serial


def test_of_two_renewals_at_once_one_counts(world: World) -> None:
    certificate = world.add_certificate()
    plan = world.database.read_now(issuing.plan, world.user_id, certificate.id)
    one, two = (issuing.carry_out(plan, world.master_key, 300) for _ in range(2))
    stored = world.database.write_now(issuing.store, world.emit, plan, one)
    with pytest.raises(Conflict, match="somebody else"):
        world.database.write_now(issuing.store, world.emit, plan, two)
    assert world.database.read_now(certificates.get, world.user_id, certificate.id) == stored


def test_foreign_and_absent_look_the_same(world: World) -> None:
    foreign = world.add_certificate(user_id=world.other_id)
    messages = set()
    for cert_id in (foreign.id, 999):
        with pytest.raises(NotFound) as caught:
            world.database.read_now(issuing.plan, world.user_id, cert_id)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_an_account_without_an_authority_says_why_it_cannot(world: World) -> None:
    certificate = world.add_certificate(world.add_account(None).id)
    with pytest.raises(Unprocessable, match="public ACME providers need a reachable domain"):
        world.database.read_now(issuing.plan, world.user_id, certificate.id)


def test_without_an_account_nothing_is_issued(world: World) -> None:
    account = world.add_account(world.add_authority().id)
    certificate = world.add_certificate(account.id)
    world.database.write_now(accounts.delete, world.user_id, account.id)
    with pytest.raises(Unprocessable, match="no account"):
        world.database.read_now(issuing.plan, world.user_id, certificate.id)


def test_a_revoked_authority_issues_nothing(world: World) -> None:
    ca = world.add_authority()
    certificate = world.add_certificate(world.add_account(ca.id).id)
    plan = world.database.read_now(issuing.plan, world.user_id, certificate.id)
    material = issuing.carry_out(plan, world.master_key, 300)
    world.database.write_now(authorities.revoke, world.emit, world.user_id, ca.id)
    with pytest.raises(Conflict, match="authority is revoked"):
        world.database.read_now(issuing.plan, world.user_id, certificate.id)
    with pytest.raises(Conflict, match="authority is revoked"):
        world.database.write_now(issuing.store, world.emit, plan, material)


def test_a_revoked_certificate_is_not_issued(world: World) -> None:
    certificate = world.add_certificate()
    plan = world.database.read_now(issuing.plan, world.user_id, certificate.id)
    material = issuing.carry_out(plan, world.master_key, 300)
    world.database.write_now(certificates.revoke, world.emit, world.user_id, certificate.id)
    with pytest.raises(Conflict, match="certificate is revoked"):
        world.database.read_now(issuing.plan, world.user_id, certificate.id)
    with pytest.raises(Conflict, match="certificate is revoked"):
        world.database.write_now(issuing.store, world.emit, plan, material)


def test_an_expired_authority_issues_nothing(world: World, clock: ManualClock) -> None:
    account = world.add_account(world.add_authority(valid_days=1).id)
    certificate = world.add_certificate(account.id)
    clock.advance(86400)
    plan = world.database.read_now(issuing.plan, world.user_id, certificate.id)
    with pytest.raises(Conflict, match="not valid now"):
        issuing.carry_out(plan, world.master_key, 300)
