from typing import Any

import pytest

from restante.commands.acks import Taken
from restante.commands.claims import HandedOut
from restante.commands.leases import CommandFailed
from restante.commands.parts import CommandsOptions
from restante.commands.queue import CommandsChanged
from restante.commands.wire import error_code
from restante.core.canonical import reference, signature_of
from restante.core.errors import RestanteError
from restante.database.connection import Row
from restante.database.database import Database
from tests.commands.field import Field, Hired
from tests.conftest import START_MS, ManualClock


class Held:
    """A site with a collector that holds one command."""

    def __init__(self, database: Database, options: CommandsOptions | None = None, **wish: Any) -> None:
        self.field = Field(database, options)
        self.site = self.field.add_site()
        self.miner = self.field.add_miner(self.site)
        self.hired = self.field.hire(self.site)
        self.id = self.field.send(self.site, self.miner, **wish).command_id
        self.given = self.claim()

    def claim(self, hired: Hired | None = None) -> HandedOut:
        return self.field.claim((hired or self.hired).caller).commands[0]

    def ack(self, status: str, hired: Hired | None = None, **said: Any) -> Taken | RestanteError:
        return self.field.ack((hired or self.hired).caller, self.id, status, **said)

    def refused(self, status: str, hired: Hired | None = None, **said: Any) -> str:
        """The code of the refusal, which has changed nothing and is the newest row of the trail."""
        before = dict(self.row)
        result = self.ack(status, hired, **said)
        assert isinstance(result, RestanteError), result
        assert dict(self.row) == before
        assert self.field.audit(self.site)[-1] == ("ack.refused", self.id, before["status"], before["status"])
        return error_code(result)

    def taken(self, status: str, **said: Any) -> dict[str, Any]:
        result = self.ack(status, **said)
        assert isinstance(result, Taken), result
        answer = result.answer
        assert (answer.status, answer.command_id) == ("ok", self.id)
        return {
            name: getattr(answer, name)
            for name in ("command_status", "replayed", "code", "will_retry", "next_attempt_at")
            if getattr(answer, name) is not None
        }

    @property
    def row(self) -> Row:
        return self.field.command(self.id)


@pytest.fixture
def held(database: Database) -> Held:
    return Held(database)


def test_succeeded(held: Held, clock: ManualClock) -> None:
    clock.advance(5)
    said = {"result_code": 0, "message": "ok", "executed_at": "2026-01-18T10:05:00Z", "before_snapshot": {"a": 1.5}}
    assert held.taken("succeeded", **said) == {"command_status": "succeeded", "replayed": False}
    row = held.row
    assert (row["status"], row["result_code"], row["result_message"]) == ("succeeded", "0", "ok")
    assert (row["finished_at"], row["acked_at"], row["executed_at"]) == (clock.now_ms, clock.now_ms, 1_768_730_700_000)
    assert (row["before_snapshot"], row["after_snapshot"]) == ('{"a":1.5}', None)
    assert held.field.audit(held.site)[-1] == ("command.succeeded", held.id, "dispatched", "succeeded")


def test_failed_is_retried_with_back_off_and_then_ends(held: Held, clock: ManualClock) -> None:
    for retries, seconds in enumerate((30, 60, 120), start=1):
        answer = held.taken("failed", message="hot")
        assert (answer["command_status"], answer["will_retry"]) == ("pending", True)
        row = held.row
        assert (row["retry_count"], row["next_attempt_at"]) == (retries, clock.now_ms + seconds * 1000)
        assert (row["lease_owner"], row["lease_until"]) == (None, None)
        clock.advance(seconds)
        held.claim()
    assert held.taken("failed", message="hot") == {
        "command_status": "failed",
        "replayed": False,
        "will_retry": False,
    }
    assert held.row["finished_at"] == clock.now_ms


def test_the_next_attempt_is_told_and_rounded_up(database: Database, clock: ManualClock) -> None:
    held = Held(database)
    clock.now_ms = START_MS + 1
    assert held.taken("failed")["next_attempt_at"] == "2027-01-15T08:00:31Z"


def test_deferred_uses_no_retry(held: Held, clock: ManualClock) -> None:
    assert held.taken("deferred", retry_after_sec=5)["command_status"] == "pending"
    assert (held.row["retry_count"], held.row["next_attempt_at"]) == (0, clock.now_ms + 5000)
    clock.advance(4.999)
    assert held.field.claim(held.hired.caller).commands == []
    clock.advance(0.001)
    assert held.claim().attempt == 2


def test_rejected_ends_failed_without_a_retry(held: Held) -> None:
    assert held.taken("rejected", message="no such mode") == {"command_status": "failed", "replayed": False}
    assert (held.row["status"], held.row["result_message"]) == ("failed", "no such mode")
    assert held.field.audit(held.site)[-1] == ("command.rejected", held.id, "dispatched", "failed")


def test_running_keeps_the_lease(held: Held) -> None:
    until = held.row["lease_until"]
    assert held.taken("running", before_snapshot={"a": 1}) == {"command_status": "running", "replayed": False}
    assert (held.row["lease_until"], held.row["lease_owner"]) == (until, held.hired.caller.device_id)
    assert held.taken("running", message="half")["command_status"] == "running"
    assert held.taken("completed")["command_status"] == "succeeded"
    assert held.row["before_snapshot"] == '{"a":1}'


def test_what_may_make_a_command_available_is_announced(held: Held) -> None:
    heard: list[object] = []
    held.field.database.on_commit(heard.extend)
    held.ack("failed")
    assert heard == [CommandsChanged(held.site)]


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [("rejected", {}, "REJECTED"), ("rejected", {"result_code": "E7"}, "E7"), ("failed", {}, "FAILED")],
)
def test_a_failure_is_announced_with_its_code(database: Database, status: str, said: dict[str, Any], code: str) -> None:
    held = Held(database, max_retries=0)
    heard: list[object] = []
    database.on_commit(heard.extend)
    held.ack(status, **said)
    assert heard == [CommandFailed(held.site, code)]


def test_the_same_ack_again_is_a_replay(held: Held) -> None:
    held.taken("succeeded", result_code=0, message="ok")
    before, rows = dict(held.row), held.field.audit(held.site)
    assert held.taken("succeeded", result_code=0, message="ok") == {
        "command_status": "succeeded",
        "replayed": True,
        "code": "ACK_REPLAYED",
    }
    assert held.taken("completed", result_code=0, result_message="ok", nonce="whatever")["replayed"] is True
    assert dict(held.row) == before
    assert held.field.audit(held.site) == rows


def test_a_replayed_failure_tells_when_the_next_attempt_is(held: Held) -> None:
    first = held.taken("failed", message="hot")
    again = held.taken("failed", message="hot")
    assert (again["command_status"], again["replayed"]) == ("pending", True)
    assert again["next_attempt_at"] == first["next_attempt_at"]
    assert held.row["retry_count"] == 1


def test_the_same_failure_of_the_next_attempt_is_a_new_ack(held: Held, clock: ManualClock) -> None:
    held.taken("failed", message="hot")
    clock.advance(30)
    held.claim()
    assert held.taken("failed", message="hot")["replayed"] is False
    assert held.row["retry_count"] == 2


def test_a_terminal_command_takes_no_other_ack(held: Held) -> None:
    held.taken("succeeded")
    assert held.refused("failed") == "COMMAND_FINISHED"
    refusal = held.ack("failed")
    assert isinstance(refusal, RestanteError)
    assert vars(refusal)["fields"] == {"command_status": "succeeded"}


def test_an_expired_command_is_gone(database: Database, clock: ManualClock) -> None:
    held = Held(database, ttl_sec=30)
    clock.advance(30)
    held.ack("succeeded")
    assert held.row["status"] == "expired"
    assert held.refused("succeeded") == "COMMAND_EXPIRED"


def test_an_unknown_command_is_not_found(held: Held) -> None:
    refusal = held.field.ack(held.hired.caller, "cmd_none", "succeeded")
    assert isinstance(refusal, RestanteError)
    assert error_code(refusal) == "COMMAND_NOT_FOUND"
    assert held.field.audit(held.site)[-1] == ("ack.refused", None, None, None)


def test_another_sites_command_is_denied_whatever_state_it_is_in(held: Held) -> None:
    stranger = held.field.hire(held.field.add_site())
    first = held.field.ack(stranger.caller, held.id, "succeeded")
    held.taken("succeeded")
    second = held.field.ack(stranger.caller, held.id, "succeeded")
    for refusal in (first, second):
        assert isinstance(refusal, RestanteError)
        assert (error_code(refusal), refusal.status) == ("ACCESS_DENIED", 403)
    assert str(first) == str(second)
    assert held.field.audit(stranger.caller.site_id)[-1] == ("ack.refused", None, None, None)


def test_only_the_holder_is_heard(held: Held) -> None:
    assert held.refused("succeeded", held.field.hire(held.site)) == "ACK_NOT_LEASE_OWNER"


def test_a_lease_that_ran_out_is_nobodys(held: Held, clock: ManualClock) -> None:
    clock.advance(60)
    result = held.ack("succeeded")
    assert isinstance(result, RestanteError)
    assert error_code(result) == "ACK_NOT_LEASE_OWNER"
    assert held.row["status"] == "pending"


def test_a_stale_ack_of_the_holder_before_is_refused(held: Held, clock: ManualClock) -> None:
    clock.advance(90)
    other = held.field.hire(held.site)
    held.claim(other)
    assert held.refused("succeeded", nonce=held.given.nonce) == "ACK_NOT_LEASE_OWNER"


def test_a_stale_ack_of_the_same_collector_is_known_by_nonce_or_attempt(held: Held, clock: ManualClock) -> None:
    clock.advance(90)
    again = held.claim()
    assert held.refused("succeeded", nonce=held.given.nonce) == "NONCE_MISMATCH"
    assert held.refused("succeeded", attempt=held.given.attempt) == "ACK_NOT_LEASE_OWNER"
    assert held.taken("succeeded", attempt=again.attempt, nonce=again.nonce)["command_status"] == "succeeded"


def test_a_nonce_is_required_only_if_so_configured_and_signed(database: Database) -> None:
    for is_signed, is_required, code in ((True, True, "NONCE_MISMATCH"), (False, True, None), (True, False, None)):
        held = Held(database, CommandsOptions(is_signed=is_signed, is_ack_nonce_required=is_required))
        if code is None:
            held.taken("succeeded")
        else:
            assert held.refused("succeeded") == code
            held.taken("succeeded", nonce=held.given.nonce)


def signed(secret: str, **said: Any) -> dict[str, Any]:
    status = said.pop("status", "succeeded")
    return {**said, "signature": signature_of(secret, reference({"status": status, **said}))}


def test_a_signed_ack_is_verified(held: Held) -> None:
    said: dict[str, Any] = {"message": "größer", "after_snapshot": {"hashrate": 100.5, "fan": [1, None]}}
    good = signed(held.hired.secret, **said)
    assert held.refused("succeeded", **{**good, "message": "other"}) == "SIGNATURE_INVALID"
    assert held.refused("succeeded", **said, signature="00" * 32) == "SIGNATURE_INVALID"
    assert held.refused("succeeded", **signed("ab" * 32, **said)) == "SIGNATURE_INVALID"
    assert held.taken("succeeded", **good)["command_status"] == "succeeded"


def test_the_nonce_is_looked_at_before_the_signature(held: Held) -> None:
    assert held.refused("succeeded", nonce="wrong", signature="00" * 32) == "NONCE_MISMATCH"
