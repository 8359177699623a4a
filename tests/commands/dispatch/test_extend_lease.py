from typing import Any

import pytest

from restante.commands.acks.ack_schema import ExtendBody
from restante.commands.dispatch.extend_lease import LeaseExtension, extend_lease
from restante.commands.errors import error_code
from restante.core.errors import RestanteError
from restante.database.database import Database
from tests.commands.acks.test_acks import LeasedCommand
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import Collector
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def leased(database: Database) -> LeasedCommand:
    return LeasedCommand(database)


def request_extension(
    leased: LeasedCommand, seconds: int, collector: Collector | None = None, nonce: str | None = None, **where: Any
) -> Any:
    caller = (collector or leased.collector).caller
    body = ExtendBody(seconds, nonce)
    harness = leased.harness
    command_id = where.get("command_id", leased.id)
    return harness.database.write_now(extend_lease, harness.trail, harness.ack_options(), caller, command_id, body)


def error_of_extension(leased: LeasedCommand, *args: Any, **kwargs: Any) -> str:
    until = leased.row["lease_until"]
    error = request_extension(leased, *args, **kwargs)
    assert isinstance(error, RestanteError)
    assert leased.row["lease_until"] in (until, None)
    return error_code(error)


def test_live_lease_is_extended(leased: LeasedCommand, clock: ManualClock) -> None:
    clock.advance(59)
    extended = request_extension(leased, 120, nonce=leased.dispatched.nonce)
    assert extended == LeaseExtension("ok", leased.id, "dispatched", 1, "2027-01-15T08:02:59Z", 120)
    assert leased.row["lease_until"] == START_MS + 179_000
    assert leased.harness.audit(leased.site)[-1] == ("command.lease_extended", leased.id, "dispatched", "dispatched")
    clock.advance(119)
    assert leased.accepted("succeeded")["command_status"] == "succeeded"


def test_extension_never_shortens_a_lease(leased: LeasedCommand) -> None:
    assert request_extension(leased, 1).lease_duration_sec == 60
    assert leased.row["lease_until"] == START_MS + 60_000


def test_expired_lease_is_not_extended(leased: LeasedCommand, clock: ManualClock) -> None:
    clock.advance(60)
    assert error_of_extension(leased, 60) == "ACK_NOT_LEASE_OWNER"
    assert leased.row["status"] == "pending"


def test_only_the_lease_owner_may_extend(leased: LeasedCommand) -> None:
    assert error_of_extension(leased, 60, leased.harness.add_collector(leased.site)) == "ACK_NOT_LEASE_OWNER"
    assert error_of_extension(leased, 60, leased.harness.add_collector(leased.harness.add_site())) == "ACCESS_DENIED"
    assert error_of_extension(leased, 60, command_id="cmd_none") == "COMMAND_NOT_FOUND"


def test_extension_with_a_wrong_or_missing_nonce_is_refused(leased: LeasedCommand, database: Database) -> None:
    assert error_of_extension(leased, 60, nonce="wrong") == "NONCE_MISMATCH"
    strict = LeasedCommand(database, commands_options(is_signed=True, is_ack_nonce_required=True))
    assert error_of_extension(strict, 60) == "NONCE_MISMATCH"


def test_lease_of_an_ended_command_is_not_extended(
    leased: LeasedCommand, database: Database, clock: ManualClock
) -> None:
    leased.accepted("succeeded")
    assert error_of_extension(leased, 60) == "COMMAND_FINISHED"
    short = LeasedCommand(database, ttl_sec=30)
    clock.advance(30)
    assert error_of_extension(short, 60) == "COMMAND_EXPIRED"
