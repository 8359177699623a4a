from typing import Any

import pytest

from restante.commands.ack_body import ExtendBody
from restante.commands.extending import Extended, extend
from restante.commands.parts import CommandsOptions
from restante.commands.wire import error_code
from restante.core.errors import RestanteError
from restante.database.database import Database
from tests.commands.field import Hired
from tests.commands.test_acks import Held
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def held(database: Database) -> Held:
    return Held(database)


def ask(held: Held, seconds: int, hired: Hired | None = None, nonce: str | None = None, **where: Any) -> Any:
    caller = (hired or held.hired).caller
    body = ExtendBody(seconds, nonce)
    field = held.field
    command_id = where.get("command_id", held.id)
    return field.database.write_now(extend, field.trail, field.ack_options(), caller, command_id, body)


def refused(held: Held, *args: Any, **kwargs: Any) -> str:
    until = held.row["lease_until"]
    refusal = ask(held, *args, **kwargs)
    assert isinstance(refusal, RestanteError)
    assert held.row["lease_until"] in (until, None)
    return error_code(refusal)


def test_lengthens_a_live_lease(held: Held, clock: ManualClock) -> None:
    clock.advance(59)
    extended = ask(held, 120, nonce=held.given.nonce)
    assert extended == Extended("ok", held.id, "dispatched", 1, "2027-01-15T08:02:59Z", 120)
    assert held.row["lease_until"] == START_MS + 179_000
    assert held.field.audit(held.site)[-1] == ("command.lease_extended", held.id, "dispatched", "dispatched")
    clock.advance(119)
    assert held.taken("succeeded")["command_status"] == "succeeded"


def test_never_shortens(held: Held) -> None:
    assert ask(held, 1).lease_duration_sec == 60
    assert held.row["lease_until"] == START_MS + 60_000


def test_a_lease_that_ran_out_is_not_lengthened(held: Held, clock: ManualClock) -> None:
    clock.advance(60)
    assert refused(held, 60) == "ACK_NOT_LEASE_OWNER"
    assert held.row["status"] == "pending"


def test_only_the_holder(held: Held) -> None:
    assert refused(held, 60, held.field.hire(held.site)) == "ACK_NOT_LEASE_OWNER"
    assert refused(held, 60, held.field.hire(held.field.add_site())) == "ACCESS_DENIED"
    assert refused(held, 60, command_id="cmd_none") == "COMMAND_NOT_FOUND"


def test_the_nonce_is_checked(held: Held, database: Database) -> None:
    assert refused(held, 60, nonce="wrong") == "NONCE_MISMATCH"
    strict = Held(database, CommandsOptions(is_signed=True, is_ack_nonce_required=True))
    assert refused(strict, 60) == "NONCE_MISMATCH"


def test_what_has_ended_has_no_lease(held: Held, database: Database, clock: ManualClock) -> None:
    held.taken("succeeded")
    assert refused(held, 60) == "COMMAND_FINISHED"
    short = Held(database, ttl_sec=30)
    clock.advance(30)
    assert refused(short, 60) == "COMMAND_EXPIRED"
