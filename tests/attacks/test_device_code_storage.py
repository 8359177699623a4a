"""A stranger starts device codes without end: rows are bounded in number and size, and deleted when they expire."""

import httpx
import pytest

from restante.core.errors import TooManyRequests
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity.devices import device_codes
from restante.identity.devices.device_codes import DeviceCodeLimits, DeviceCodeStatus, IssuedCodes
from tests.conftest import ManualClock
from tests.identity.people_and_devices import CODE_KEY, add_user
from tests.updates.auth_app import AuthApp, code_of, serving

LIMITS = DeviceCodeLimits(per_address=3, total=5)

_ROWS = Query("rows", "SELECT address, address_group, scopes, user_agent FROM device_codes")


def start(
    database: Database,
    address: str,
    *,
    limits: DeviceCodeLimits = LIMITS,
    expires_in: int = 30,
    scopes: list[str] | None = None,
    user_agent: str = "",
) -> IssuedCodes:
    return database.write_now(
        device_codes.start,
        CODE_KEY,
        limits,
        scopes=scopes or [],
        interval_seconds=1,
        expires_in=expires_in,
        address=address,
        user_agent=user_agent,
    )


def row_count(database: Database) -> int:
    return len(database.read_now(lambda conn: conn.all(_ROWS)))


def test_one_address_stores_no_more_than_its_share(database: Database, clock: ManualClock) -> None:
    for _ in range(3):
        start(database, "192.0.2.1")
    clock.advance(10)
    with pytest.raises(TooManyRequests, match="from this address") as refused:
        start(database, "192.0.2.1")
    assert refused.value.retry_after_seconds == 20
    start(database, "192.0.2.2")
    assert row_count(database) == 4


def test_addresses_of_one_ipv6_network_have_one_share(database: Database) -> None:
    for host in range(3):
        start(database, f"2001:db8::{host + 1}")
    with pytest.raises(TooManyRequests, match="from this address"):
        start(database, "2001:db8::ffff")
    start(database, "2001:db8:0:1::1")


def test_all_addresses_together_store_no_more_than_the_total(database: Database, clock: ManualClock) -> None:
    for host in range(5):
        start(database, f"192.0.2.{host}")
    for host in range(5, 20):
        with pytest.raises(TooManyRequests, match="in all"):
            start(database, f"192.0.2.{host}")
    assert row_count(database) == 5
    clock.advance(30)
    start(database, "192.0.2.99")


def test_rows_of_expired_codes_are_deleted_by_the_next_start(database: Database, clock: ManualClock) -> None:
    codes = [start(database, "192.0.2.1") for _ in range(3)]
    clock.advance(30)
    start(database, "192.0.2.1")
    assert row_count(database) == 1
    # A late poll gets the same response as before the deletion.
    for each in codes:
        assert database.write_now(device_codes.poll, CODE_KEY, each.device_code, None) is DeviceCodeStatus.expired


def test_row_of_a_used_code_is_deleted(database: Database) -> None:
    user_id, codes = add_user(database), start(database, "192.0.2.1")
    database.write_now(device_codes.decide, codes.user_code, user_id, approve=True)
    database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None)
    assert row_count(database) == 0
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) is DeviceCodeStatus.expired


def test_row_stays_small_whatever_is_sent(database: Database) -> None:
    start(database, "192.0.2.1", scopes=["ü" * 100] * 20, user_agent="é" * 255)
    (row,) = database.read_now(lambda conn: conn.all(_ROWS))
    stored = [row[name] for name in ("address", "address_group", "scopes", "user_agent")]
    assert sum(len(text.encode()) for text in stored) < 800
    assert row["scopes"] == '["' + '", "'.join(["ü" * 100] * 2) + '"]'


async def test_excess_is_refused_in_the_protocols_shape(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock, code_limits=DeviceCodeLimits(per_address=1, total=5)) as app:
        await app.device_start(expires_in=30)
        refused = await second_start(app)
        assert code_of(refused) == (429, 5013)
        assert refused.headers["retry-after"] == "30"
        clock.advance(30)
        assert (await second_start(app)).status_code == 200


async def second_start(app: AuthApp) -> httpx.Response:
    async with app.client() as client:
        return await client.post("/auth/device", json={"action": "device_start"})
