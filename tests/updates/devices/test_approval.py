import pytest

from restante.core.errors import NotAllowed, NotFound, TooManyRequests
from restante.database.database import Database
from restante.identity.callers import Person, Role
from restante.identity.devices import device_codes
from restante.identity.devices.device_codes import DeviceCodeStatus, IssuedCodes
from restante.identity.grants import Grants
from restante.updates.devices.approval import LOOKUPS_BURST, Approval
from tests.conftest import ManualClock
from tests.identity.people_and_devices import CODE_KEY, CODE_LIMITS, add_user


@pytest.fixture
def approval(database: Database, clock: ManualClock) -> Approval:
    return Approval(database, clock=lambda: clock.now_ms / 1000)


@pytest.fixture
def codes(database: Database) -> IssuedCodes:
    return database.write_now(
        device_codes.start,
        CODE_KEY,
        CODE_LIMITS,
        scopes=[],
        interval_seconds=5,
        expires_in=900,
        address="",
        user_agent="",
    )


def person(database: Database, role: Role = Role.operator) -> Person:
    return Person(
        add_user(database, f"{role.name}@example.com", role), f"{role.name}@example.com", Grants.everywhere(role)
    )


async def test_operator_finds_and_decides(database: Database, approval: Approval, codes: IssuedCodes) -> None:
    operator = person(database)
    assert (await approval.find_pending(operator, codes.user_code)).user_code == codes.user_code
    await approval.decide(operator, codes.user_code, approve=False)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) is DeviceCodeStatus.access_denied


async def test_viewer_is_refused(database: Database, approval: Approval, codes: IssuedCodes) -> None:
    viewer = person(database, Role.viewer)
    with pytest.raises(NotAllowed):
        await approval.find_pending(viewer, codes.user_code)
    with pytest.raises(NotAllowed):
        await approval.decide(viewer, codes.user_code, approve=True)
    database.read_now(device_codes.find_pending, codes.user_code)


async def test_lookups_are_rate_limited_per_person(
    database: Database, clock: ManualClock, approval: Approval, codes: IssuedCodes
) -> None:
    operator, other = person(database), person(database, Role.admin)
    for _ in range(LOOKUPS_BURST // 2):
        with pytest.raises(NotFound):
            await approval.find_pending(operator, "BBBB-BBBB")
        with pytest.raises(NotFound):
            await approval.decide(operator, "BBBB-BBBB", approve=True)
    with pytest.raises(TooManyRequests) as refused:
        await approval.decide(operator, codes.user_code, approve=True)
    assert refused.value.retry_after_seconds == 2
    with pytest.raises(TooManyRequests):
        await approval.find_pending(operator, codes.user_code)
    await approval.find_pending(other, codes.user_code)
    clock.advance(2)
    await approval.decide(operator, codes.user_code, approve=True)
