import pytest

from restante.core.errors import NotAllowed, NotFound, TooManyRequests
from restante.database.database import Database
from restante.identity import device_codes
from restante.identity.callers import Person, Role
from restante.identity.device_codes import Standing, Started
from restante.updates.approval import LOOKUPS_BURST, Approval
from tests.conftest import ManualClock
from tests.identity.population import add_user


@pytest.fixture
def approval(database: Database, clock: ManualClock) -> Approval:
    return Approval(database, clock=lambda: clock.now_ms / 1000)


@pytest.fixture
def started(database: Database) -> Started:
    return database.write_now(
        device_codes.start, scopes=[], interval_seconds=5, expires_in=900, address="", user_agent=""
    )


def person(database: Database, role: Role = Role.operator) -> Person:
    return Person(add_user(database, f"{role.name}@example.com", role), f"{role.name}@example.com", role)


async def test_an_operator_looks_and_decides(database: Database, approval: Approval, started: Started) -> None:
    operator = person(database)
    assert (await approval.look(operator, started.user_code)).user_code == started.user_code
    await approval.decide(operator, started.user_code, approve=False)
    assert database.write_now(device_codes.poll, started.device_code, None) is Standing.access_denied


async def test_a_viewer_does_neither(database: Database, approval: Approval, started: Started) -> None:
    viewer = person(database, Role.viewer)
    with pytest.raises(NotAllowed):
        await approval.look(viewer, started.user_code)
    with pytest.raises(NotAllowed):
        await approval.decide(viewer, started.user_code, approve=True)
    database.read_now(device_codes.find_waiting, started.user_code)


async def test_guessing_is_limited_per_person(
    database: Database, clock: ManualClock, approval: Approval, started: Started
) -> None:
    operator, other = person(database), person(database, Role.admin)
    for _ in range(LOOKUPS_BURST // 2):
        with pytest.raises(NotFound):
            await approval.look(operator, "BBBB-BBBB")
        with pytest.raises(NotFound):
            await approval.decide(operator, "BBBB-BBBB", approve=True)
    with pytest.raises(TooManyRequests) as refused:
        await approval.decide(operator, started.user_code, approve=True)
    assert refused.value.retry_after_seconds == 2
    with pytest.raises(TooManyRequests):
        await approval.look(operator, started.user_code)
    await approval.look(other, started.user_code)
    clock.advance(2)
    await approval.decide(operator, started.user_code, approve=True)
