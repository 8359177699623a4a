from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from restante.database.database import Database
from restante.identity import revisions, signing_keys
from restante.identity.master_key import MasterKey, MasterKeyError
from restante.identity.signing_keys import NOTICE_SECONDS, SigningKeys
from tests.conftest import ManualClock

MASTER = MasterKey(bytes(32))


async def loaded(database: Database) -> SigningKeys:
    keys = SigningKeys(database, MASTER)
    await keys.load()
    return keys


async def test_the_first_key_is_made_once(database: Database) -> None:
    first, second = await loaded(database), await loaded(database)
    assert first.signing[0] == second.signing[0]
    assert len(database.read_now(signing_keys.verifying)) == 1


async def test_two_that_start_at_once_agree(database: Database) -> None:
    database.write_now(signing_keys.store_first, signing_keys.make(MASTER))
    database.write_now(signing_keys.store_first, signing_keys.make(MASTER))
    assert len(database.read_now(signing_keys.verifying)) == 1


async def test_after_rotation_the_new_key_signs_and_the_old_verifies_for_a_while(
    database: Database, clock: ManualClock
) -> None:
    old, _ = (await loaded(database)).signing
    new = signing_keys.make(MASTER)
    before = database.read_now(revisions.current)
    database.write_now(signing_keys.rotate, new, 3600)
    assert database.read_now(revisions.current) == before + 1
    keys = await loaded(database)
    assert keys.signing[0] == new.kid
    now = clock.now_ms / 1000
    assert keys.find(old, now + 3600 + NOTICE_SECONDS - 1) is not None
    assert keys.find(old, now + 3600 + NOTICE_SECONDS) is None
    assert keys.find(new.kid, now + 10**9) is not None
    clock.advance(3600 + NOTICE_SECONDS)
    assert (await loaded(database)).find(old, now) is None


async def test_rotation_at_once_ends_the_old_keys(database: Database, clock: ManualClock) -> None:
    old, _ = (await loaded(database)).signing
    database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 0)
    keys = await loaded(database)
    assert keys.find(old, clock.now_ms / 1000) is None
    assert len(database.read_now(signing_keys.verifying)) == 1


async def test_an_ended_key_is_deleted_and_the_signing_one_is_not(database: Database, clock: ManualClock) -> None:
    await loaded(database)
    database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    assert database.write_now(signing_keys.forget_expired) == 0
    clock.advance(10 * 86400)
    assert database.write_now(signing_keys.forget_expired) == 1
    assert len(database.read_now(signing_keys.verifying)) == 1


async def test_the_private_key_is_sealed(database: Database, tmp_path: Path) -> None:
    _, key = (await loaded(database)).signing
    assert key.private_key is not None
    secret = key.private_key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert secret not in kept
    assert b"PRIVATE KEY" not in kept


async def test_another_master_key_is_told(database: Database) -> None:
    await loaded(database)
    with pytest.raises(MasterKeyError, match="another master key"):
        await SigningKeys(database, MasterKey(b"x" * 32)).load()
