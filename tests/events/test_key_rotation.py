import asyncio

from restante.core.iso_time import iso
from restante.database.database import Database
from restante.events import event_keys
from restante.events.key_rotation import KeyRotation, RotationOptions
from tests.conftest import START_MS, ManualClock
from tests.events.publishers import MASTER

DAY = 86_400
OPTIONS = RotationOptions(days=30, lead_seconds=DAY, overlap_seconds=7 * DAY)


def test_what_is_due_is_rotated_once(database: Database, clock: ManualClock) -> None:
    rotation = KeyRotation(database, MASTER, OPTIONS)
    assert asyncio.run(rotation.run_once()) == []
    first = database.write_now(event_keys.store_first, event_keys.make(MASTER, "EdDSA"))
    assert asyncio.run(rotation.run_once()) == []
    clock.advance(30 * DAY)
    assert asyncio.run(rotation.run_once()) == ["EdDSA"]
    assert asyncio.run(rotation.run_once()) == []
    coming, signing = database.read_now(event_keys.views)
    assert (coming.status, signing.status, signing.kid) == ("coming", "signing", first.kid)
    clock.advance(DAY)
    assert database.read_now(event_keys.views)[0].status == "signing"


def test_without_days_nothing_is_ever_due(database: Database) -> None:
    asyncio.run(KeyRotation(database, MASTER, RotationOptions(days=0)).run())


def test_an_operator_rotates_and_withdraws(database: Database) -> None:
    rotation = KeyRotation(database, MASTER, OPTIONS)
    first = asyncio.run(rotation.rotate("ES256", "ada"))
    second = asyncio.run(rotation.rotate("ES256", "ada"))
    assert (first.signs_from, second.signs_from) == (iso(START_MS), iso(START_MS + DAY * 1000))
    withdrawn = asyncio.run(rotation.withdraw(first.kid, "ada"))
    assert (withdrawn.kid, withdrawn.signed_again) == (first.kid, 0)
    assert [key["kid"] for key in database.read_now(event_keys.published)] == [second.kid]
