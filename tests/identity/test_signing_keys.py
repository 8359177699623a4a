from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import revocation_counter, signing_keys
from restante.identity.master_key import MasterKey, MasterKeyError, MasterKeySource
from restante.identity.signing_keys import NOTICE_SECONDS, SigningKeys
from tests.conftest import ManualClock
from tests.identity.people_and_devices import add_user

MASTER = MasterKey(bytes(32))


async def loaded(database: Database) -> SigningKeys:
    keys = SigningKeys(database, MASTER)
    await keys.load()
    return keys


async def test_first_key_is_made_once(database: Database) -> None:
    first, second = await loaded(database), await loaded(database)
    assert first.signing[0] == second.signing[0]
    assert len(database.read_now(signing_keys.list_verifying)) == 1


async def test_second_first_key_is_not_stored(database: Database) -> None:
    database.write_now(signing_keys.store_first, signing_keys.make(MASTER))
    database.write_now(signing_keys.store_first, signing_keys.make(MASTER))
    assert len(database.read_now(signing_keys.list_verifying)) == 1


async def test_after_rotation_new_key_signs_and_old_key_verifies_for_a_while(
    database: Database, clock: ManualClock
) -> None:
    old, _ = (await loaded(database)).signing
    new = signing_keys.make(MASTER)
    before = database.read_now(revocation_counter.current)
    database.write_now(signing_keys.rotate, new, 3600)
    assert database.read_now(revocation_counter.current) == before + 1
    keys = await loaded(database)
    assert keys.signing[0] == new.kid
    now = clock.now_ms / 1000
    assert keys.find(old, now + 3600 + NOTICE_SECONDS - 1) is not None
    assert keys.find(old, now + 3600 + NOTICE_SECONDS) is None
    assert keys.find(new.kid, now + 10**9) is not None
    clock.advance(3600 + NOTICE_SECONDS)
    assert (await loaded(database)).find(old, now) is None


async def test_rotation_without_grace_ends_the_old_keys(database: Database, clock: ManualClock) -> None:
    old, _ = (await loaded(database)).signing
    database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 0)
    keys = await loaded(database)
    assert keys.find(old, clock.now_ms / 1000) is None
    assert len(database.read_now(signing_keys.list_verifying)) == 1


async def test_ended_key_is_deleted_and_signing_key_stays(database: Database, clock: ManualClock) -> None:
    await loaded(database)
    database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    assert database.write_now(signing_keys.delete_expired) == 0
    clock.advance(10 * 86400)
    assert database.write_now(signing_keys.delete_expired) == 1
    assert len(database.read_now(signing_keys.list_verifying)) == 1


async def test_private_key_is_stored_sealed(database: Database, tmp_path: Path) -> None:
    _, key = (await loaded(database)).signing
    assert key.private_key is not None
    secret = key.private_key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert secret not in kept
    assert b"PRIVATE KEY" not in kept


async def test_other_master_key_is_refused(database: Database) -> None:
    await loaded(database)
    with pytest.raises(MasterKeyError, match="another master key"):
        await SigningKeys(database, MasterKey(b"x" * 32)).load()


@pytest.fixture
def source(tmp_path: Path) -> MasterKeySource:
    return MasterKeySource(tmp_path / "key" / "master.key", None)


def write(database: Database, statement: str) -> None:
    database.write_now(lambda conn: conn.run(Query("test", statement)))


def test_unlock_makes_a_key_for_a_new_database(database: Database, source: MasterKeySource) -> None:
    assert database.read_now(signing_keys.matching_master_key, source) is None
    assert not source.path.exists()
    master = signing_keys.unlock(database, source)
    assert source.path.exists()
    assert signing_keys.unlock(database, source).derive_key("x") == master.derive_key("x")


def test_right_key_unlocks(database: Database, source: MasterKeySource) -> None:
    master = signing_keys.unlock(database, source)
    database.write_now(signing_keys.store_first, signing_keys.make(master))
    database.write_now(signing_keys.rotate, signing_keys.make(master), 3600)
    assert signing_keys.unlock(database, source).derive_key("x") == master.derive_key("x")
    given = MasterKeySource(source.path, source.path.read_text())
    assert signing_keys.unlock(database, given).derive_key("x") == master.derive_key("x")


def test_lost_key_is_not_replaced(database: Database, source: MasterKeySource) -> None:
    database.write_now(signing_keys.store_first, signing_keys.make(MASTER))
    with pytest.raises(MasterKeyError) as refused:
        signing_keys.unlock(database, source)
    assert str(source.path) in refused.value.problem
    assert "put it back" in refused.value.remedy
    assert not source.path.exists()


def test_foreign_key_is_refused_and_named(database: Database, source: MasterKeySource) -> None:
    database.write_now(signing_keys.store_first, signing_keys.make(MASTER))
    source.make()
    with pytest.raises(MasterKeyError, match="another master key") as refused:
        signing_keys.unlock(database, source)
    assert str(source.path) in refused.value.problem
    with pytest.raises(MasterKeyError, match="RESTANTE_MASTER_KEY") as refused:
        signing_keys.unlock(database, MasterKeySource(source.path, "ab" * 32))
    assert str(source.path) not in refused.value.problem
    assert "abab" not in str(refused.value)
    signing_keys.unlock(database, MasterKeySource(source.path, bytes(32).hex()))


def test_newest_signing_key_decides(database: Database, source: MasterKeySource) -> None:
    database.write_now(signing_keys.store_first, signing_keys.make(MasterKey(b"x" * 32)))
    database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 0)
    signing_keys.unlock(database, MasterKeySource(source.path, bytes(32).hex()))
    with pytest.raises(MasterKeyError):
        signing_keys.unlock(database, MasterKeySource(source.path, (b"x" * 32).hex()))


SEALED = {
    "derived_keys": ("sealed_key", "(purpose, sealed_key) VALUES ('audit', x'01')"),
    "signing_keys": ("sealed_key", "(kid, sealed_key, created_at, verifies_until) VALUES ('old', x'01', 1, 1)"),
    "certificate_authorities": (
        "sealed_key",
        "(user_id, name, common_name, algorithm, key_size, serial, valid_days, not_before, not_after, certificate_der,"
        " sealed_key, created_at) VALUES (1, 'a', 'a', 'RSA', 1, 's', 1, 1, 1, x'', x'01', 1)",
    ),
    "cert_records": (
        "sealed_data_key",
        "(user_id, domain_name, sans, sealed_data_key, created_at, updated_at) VALUES (1, 'a', '[]', x'01', 1, 1)",
    ),
    "edge_devices": (
        "hmac_secret",
        "(site_id, device_name, token_hash, hmac_secret, created_at) VALUES (1, 'a', x'', x'01', 1)",
    ),
    "event_signing_keys": (
        "sealed_key",
        "(kid, alg, public_jwk, sealed_key, created_at, signs_from) VALUES ('k', 'PS256', '{}', x'01', 1, 1)",
    ),
    "event_receivers": (
        "sealed_authorization",
        "(client, profile, url, sealed_authorization) VALUES (1, 'open-banking', 'https://a.example', x'01')",
    ),
    "automation_rules": (
        "sealed_params",
        "(name, site_id, trigger_type, action_type, action_parameters, sealed_params, created_by, created_at,"
        " updated_at) VALUES ('a', 1, 'offline', 'POOL_SET', '{}', x'01', 'a', 1, 1)",
    ),
    "miner_commands": (
        "sealed_params",
        "(command_id, site_id, zone_id, command_type, params, sealed_params, rank, status, expires_at, created_at,"
        " created_by, max_retries, retry_backoff_sec)"
        " VALUES ('c', 1, 1, 'POOL_SET', '{}', x'01', 1, 'cancelled', 1, 1, 'a', 1, 1)",
    ),
    "jobs": (
        "sealed_params",
        "(job_id, area, target, action, filter, params, sealed_params, created_by, identities, role, created_at, state,"
        " total, through_id, run_at)"
        " VALUES ('j', 'commands', 'miners', 'send', '{}', '{}', x'01', 'a', '[]', 'operator', 1, 'done', 1, 1, 1)",
    ),
    "rollouts": (
        "sealed_params",
        "(rollout_id, name, area, target, action, filter, params, sealed_params, created_by, identities, role,"
        " created_at, state, total, waves, success_percent, error_percent, min_wave_seconds, max_wave_seconds,"
        " is_boosting, check_at) VALUES ('r', 'a', 'commands', 'miners', 'send', '{}', '{}', x'01', 'a', '[]',"
        " 'operator', 1, 'done', 1, '[]', 1, 1, 1, 1, 0, 1)",
    ),
}


def insert_owners(database: Database) -> None:
    """Insert the rows that rows with sealed values refer to."""
    add_user(database)
    write(database, "INSERT INTO edge_sites (name, created_at) VALUES ('a', 1)")
    write(database, "INSERT INTO edge_zones (site_id, name, is_default, created_at) VALUES (1, 'a', 1, 1)")
    write(
        database,
        "INSERT INTO event_clients (client_id, name, token_endpoint_auth_method, scope, set_signing_alg, created_at)"
        " VALUES ('a', 'a', 'private_key_jwt', 'eventpolling', 'PS256', 1)",
    )


@pytest.mark.parametrize("table", SEALED)
def test_no_key_is_made_when_anything_is_sealed(database: Database, source: MasterKeySource, table: str) -> None:
    insert_owners(database)
    write(database, f"INSERT INTO {table} {SEALED[table][1]}")
    with pytest.raises(MasterKeyError, match="put it back"):
        signing_keys.unlock(database, source)
    assert not source.path.exists()


def test_every_sealed_column_is_checked(database: Database) -> None:
    columns = Query(
        "columns",
        "SELECT tables.name AS tbl, columns.name AS col FROM sqlite_master AS tables"
        " JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'",
        (("postgres", "SELECT table_name AS tbl, column_name AS col FROM information_schema.columns"),),
    )
    rows = database.read_now(lambda conn: conn.all(columns))
    sealed = {(row["tbl"], row["col"]) for row in rows if "sealed" in row["col"] or row["col"].startswith("hmac_sec")}
    assert sealed == {(table, column) for table, (column, _) in SEALED.items()}
