import asyncio
from dataclasses import replace

from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.events.signing import event_keys
from restante.events.signing.key_rotation import KeyRotation, RotationOptions
from tests.conftest import START_MS, ManualClock
from tests.events.publish_fixture import MASTER

DAY = 86_400
OPTIONS = RotationOptions(days=30, lead_seconds=DAY, overlap_seconds=7 * DAY)


def test_due_key_is_rotated_once(database: Database, clock: ManualClock) -> None:
    rotation = KeyRotation(database, MASTER, OPTIONS)
    assert asyncio.run(rotation.run_once()) == []
    first = database.write_now(event_keys.store_first, event_keys.generate(MASTER, "EdDSA"))
    assert asyncio.run(rotation.run_once()) == []
    clock.advance(30 * DAY)
    assert asyncio.run(rotation.run_once()) == ["EdDSA"]
    assert asyncio.run(rotation.run_once()) == []
    coming, signing = database.read_now(event_keys.list_views)
    assert (coming.status, signing.status, signing.kid) == ("coming", "signing", first.kid)
    clock.advance(DAY)
    assert database.read_now(event_keys.list_views)[0].status == "signing"


def test_zero_days_disables_rotation(database: Database) -> None:
    asyncio.run(KeyRotation(database, MASTER, replace(OPTIONS, days=0)).run())


def test_operator_rotates_and_withdraws_keys(database: Database) -> None:
    rotation = KeyRotation(database, MASTER, OPTIONS)
    first = asyncio.run(rotation.rotate("ES256", "ada"))
    second = asyncio.run(rotation.rotate("ES256", "ada"))
    assert (first.signs_from, second.signs_from) == (iso_precise(START_MS), iso_precise(START_MS + DAY * 1000))
    withdrawn = asyncio.run(rotation.withdraw(first.kid, "ada"))
    assert (withdrawn.kid, withdrawn.signed_again) == (first.kid, 0)
    assert [key["kid"] for key in database.read_now(event_keys.published_jwks)] == [second.kid]


def test_missing_keys_are_made_once(database: Database) -> None:
    rotation = KeyRotation(database, MASTER, OPTIONS)
    asyncio.run(rotation.make_missing(["EdDSA", "ES256"]))
    made = database.read_now(event_keys.published_jwks)
    assert [(key["kty"], key["alg"]) for key in made] == [("EC", "ES256"), ("OKP", "EdDSA")]
    asyncio.run(rotation.make_missing(["EdDSA", "ES256"]))
    assert database.read_now(event_keys.published_jwks) == made


def test_missing_keys_made_by_several_nodes_at_once_are_stored_once(database: Database) -> None:
    rotations = [KeyRotation(database, MASTER, OPTIONS) for _ in range(3)]

    async def make_all() -> None:
        await asyncio.gather(*(rotation.make_missing(["ES256"]) for rotation in rotations))

    asyncio.run(make_all())
    assert len(database.read_now(event_keys.published_jwks)) == 1
