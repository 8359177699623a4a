"""The poll without HTTP: what is answered from memory, which polls are woken, and that each is answered once."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from restante.commands.component import CommandsOptions
from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.lifecycle.creation import CommandRequest, create
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.commands.polling.poll import CollectorPoll, PollResult
from restante.commands.response_format import RESPONSE_FORMAT
from restante.database.commit_events import ForeignCommit
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.callers import CollectorCaller
from restante.web.errors.error_responses import result_response
from restante.web.response import ApiResponse
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import ACTOR, CommandsHarness
from tests.conftest import ManualClock
from tests.delivery.busy_database import hold_writers


class PollCall:
    """A poll and the responses it got."""

    def __init__(
        self, polls: "PollHarness", caller: CollectorCaller, limit: int, zone_id: int | None, waits: bool
    ) -> None:
        self.responses: list[ApiResponse] = []
        self.parked: CollectorPoll = polls.poll.start(ClaimRequest(caller, zone_id, limit), waits, self._reply)

    def _reply(self, result: PollResult) -> None:
        self.responses.append(result_response(RESPONSE_FORMAT, result))

    async def body(self) -> dict[str, Any]:
        await until(lambda: bool(self.responses))
        assert len(self.responses) == 1
        assert self.responses[0].status == 200
        found: dict[str, Any] = json.loads(self.responses[0].body)
        return found

    async def ids(self) -> list[str]:
        return [command["command_id"] for command in (await self.body())["commands"]]


class PollHarness:
    def __init__(self, database: Database, options: CommandsOptions | None = None) -> None:
        self.harness = CommandsHarness(database, options)
        self.harness.subscribe(asyncio.get_running_loop())
        self.poll = self.harness.component.poll
        self.site = self.harness.add_site()
        self.miner = self.harness.add_miner(self.site)
        self.caller = self.harness.add_collector(self.site).caller

    def start(
        self,
        caller: CollectorCaller | None = None,
        *,
        limit: int = 10,
        zone_id: int | None = None,
        waits: bool = False,
    ) -> PollCall:
        return PollCall(self, caller or self.caller, limit, zone_id, waits)

    async def park(self, caller: CollectorCaller | None = None, **options: Any) -> PollCall:
        before = self.poll.parked_count
        call = self.start(caller, waits=True, **options)
        await until(lambda: self.poll.parked_count == before + 1)
        return call

    def send(self, **options: Any) -> str:
        return self.harness.add_command(self.site, self.miner, **options).command_id

    @property
    def writes(self) -> int:
        return self.harness.database.writes


async def until(is_true: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the condition never became true")


@pytest.fixture
async def polls(database: Database) -> PollHarness:
    return PollHarness(database)


async def test_poll_gets_pending_commands(polls: PollHarness) -> None:
    sent = polls.send()
    assert await polls.start().ids() == [sent]


async def test_idle_poll_does_no_io(polls: PollHarness) -> None:
    assert await polls.start().ids() == []
    before = polls.writes
    for _ in range(3):
        body = await polls.start().body()
        assert body["commands"] == []
        assert polls.poll.idle_result(polls.caller, None) is not None
    assert polls.writes == before


async def test_site_is_known_empty_until_the_last_lease_ends(polls: PollHarness) -> None:
    polls.send()
    await asyncio.sleep(0)  # the notification arrives
    await polls.start().ids()
    empty = polls.poll.waiters.empty_until(polls.site, None)
    assert empty is not None
    assert 0 < empty.until - asyncio.get_running_loop().time() <= 60.5


async def test_site_with_more_commands_is_not_known_empty(polls: PollHarness) -> None:
    for _ in range(3):
        polls.send()
    await polls.start(limit=2).ids()
    assert polls.poll.waiters.empty_until(polls.site, None) is None


async def test_rate_limited_count_is_answered_from_memory(polls: PollHarness) -> None:
    for _ in range(7):
        polls.send(command_type="MINER_RESTART")
    await asyncio.sleep(0)  # the notifications arrive
    assert (await polls.start().body())["rate_limited_count"] == 2
    before = polls.writes
    assert (await polls.start().body())["rate_limited_count"] == 2
    assert polls.writes == before


async def test_new_command_ends_the_known_emptiness(polls: PollHarness) -> None:
    await polls.start().ids()
    sent = polls.send()
    await until(lambda: polls.poll.waiters.empty_until(polls.site, None) is None)
    assert await polls.start().ids() == [sent]


async def test_parked_poll_gets_a_new_command(polls: PollHarness) -> None:
    call = await polls.park()
    sent = polls.send()
    assert await call.ids() == [sent]


async def test_each_command_wakes_one_waiter(polls: PollHarness) -> None:
    waiting = [await polls.park(limit=1) for _ in range(5)]
    claims_before = polls.writes
    sent = [polls.send() for _ in range(2)]
    assert [await call.ids() for call in waiting[:2]] == [[sent[0]], [sent[1]]]
    await asyncio.sleep(0.05)
    assert polls.poll.parked_count == 3
    # Two commands created and two claims: no other poll has claimed.
    assert polls.writes == claims_before + 4


async def test_one_notification_for_many_commands_wakes_as_many_waiters_as_needed(polls: PollHarness) -> None:
    waiting = [await polls.park(limit=2) for _ in range(4)]
    request = CommandRequest(site_id=polls.site, miner_id=polls.miner, command_type="SET_FAN", params=b'{"speed":5}')

    def five(conn: Connection) -> list[str]:
        return [
            create(conn, polls.harness.trail, request, ACTOR, polls.harness.creation_options).command_id
            for _ in range(5)
        ]

    sent = polls.harness.database.write_now(five)
    got = [each for call in waiting[:3] for each in await call.ids()]
    assert got == sent
    await until(lambda: polls.poll.parked_count == 1)
    assert waiting[3].responses == []


async def test_poll_woken_in_vain_is_parked_again(polls: PollHarness) -> None:
    call = await polls.park()
    polls.harness.handle_commit_events([CommandsChanged(polls.site)])
    await until(lambda: polls.poll.parked_count == 1)
    assert call.responses == []
    sent = polls.send()
    assert await call.ids() == [sent]


async def test_notification_during_a_claim_is_not_missed(polls: PollHarness) -> None:
    call = polls.start(waits=True)
    polls.poll.waiters.notify(polls.site)
    await until(lambda: polls.poll.parked_count == 1)
    assert polls.poll.waiters.last_notified(polls.site) == call.parked.notification


async def test_waiter_of_another_zone_wakes_the_next(polls: PollHarness) -> None:
    zone, other = polls.harness.add_zone(polls.site), polls.harness.add_zone(polls.site)
    miner = polls.harness.add_miner(polls.site, zone)
    first = await polls.park(polls.harness.add_collector(polls.site, other).caller)
    second = await polls.park(zone_id=other)
    third = await polls.park(polls.harness.add_collector(polls.site, zone).caller)
    sent = polls.harness.add_command(polls.site, miner)
    assert await third.ids() == [sent.command_id]
    await until(lambda: polls.poll.parked_count == 2)
    assert first.responses == second.responses == []


async def test_foreign_commit_makes_waiters_claim_again(polls: PollHarness) -> None:
    call = await polls.park()
    polls.harness.handle_commit_events([ForeignCommit()])
    await until(lambda: polls.poll.parked_count == 1)
    assert call.responses == []
    assert polls.poll.waiters.empty_until(polls.site, None) is not None


async def test_due_time_wakes_a_waiter(polls: PollHarness, clock: ManualClock) -> None:
    polls.send()
    given = await polls.start().body()
    command_id = given["commands"][0]["command_id"]
    polls.harness.ack(polls.caller, command_id, "deferred", retry_after_sec=1)
    await asyncio.sleep(0.02)
    call = await polls.park()
    clock.advance(1)
    assert await call.ids() == [command_id]


async def test_expired_wait_gets_an_empty_result(polls: PollHarness) -> None:
    call = await polls.park()
    polls.poll.expire(call.parked)
    assert await call.ids() == []
    assert polls.poll.parked_count == 0
    polls.send()
    await asyncio.sleep(0.05)
    assert len(call.responses) == 1


async def test_claim_finishes_after_the_wait_expired(polls: PollHarness) -> None:
    sent = polls.send()
    call = polls.start(waits=True)
    polls.poll.expire(call.parked)
    assert call.responses == []
    assert await call.ids() == [sent]


async def test_disconnected_poll_is_not_woken(polls: PollHarness) -> None:
    gone, here = await polls.park(), await polls.park()
    polls.poll.disconnect(gone.parked)
    sent = polls.send()
    assert await here.ids() == [sent]
    assert gone.responses == []


async def test_no_claim_is_run_for_a_disconnected_poll(polls: PollHarness) -> None:
    sent = polls.send()
    here = polls.start(waits=True)
    assert await here.ids() == [sent]
    second = polls.send()
    release = hold_writers(polls.harness.database)
    gone = polls.start()
    polls.poll.disconnect(gone.parked)
    release()
    assert await polls.start().ids() == [second]
    assert gone.responses == []


async def test_poll_that_disconnects_before_its_claim_wakes_the_next_waiter(polls: PollHarness) -> None:
    gone, here = await polls.park(), await polls.park()
    sent = polls.send()
    # The notification has not been handled yet: the claim that it causes waits in the queue of the writers.
    release = hold_writers(polls.harness.database)
    await until(lambda: gone.parked.call is not None)
    polls.poll.disconnect(gone.parked)
    release()
    assert await here.ids() == [sent]
    assert gone.responses == []


async def test_close_answers_parked_polls_and_parks_no_more(polls: PollHarness) -> None:
    call = await polls.park()
    polls.poll.close()
    assert await call.ids() == []
    assert await polls.start(waits=True).ids() == []


async def test_errors_are_answered(polls: PollHarness) -> None:
    call = polls.start(zone_id=999)
    await until(lambda: bool(call.responses))
    assert call.responses[0].status == 403
    polls.harness.database.close()
    unavailable = polls.start()
    await until(lambda: bool(unavailable.responses))
    assert unavailable.responses[0].status == 503


async def test_collector_of_one_zone_is_not_answered_from_memory_for_another(polls: PollHarness) -> None:
    zone, other = polls.harness.add_zone(polls.site), polls.harness.add_zone(polls.site)
    assert await polls.start(zone_id=zone).ids() == []
    stranger = polls.harness.add_collector(polls.site, other).caller
    assert polls.poll.idle_result(polls.caller, zone) is not None
    assert polls.poll.idle_result(stranger, zone) is None


async def test_poll_is_recorded_as_seen_and_counted(polls: PollHarness) -> None:
    polls.send()
    await polls.start().ids()
    assert polls.caller.device_id in polls.harness.component.presence.seen
    assert polls.harness.component.counters.dispatched.counts == {(str(polls.site), "POWER_MODE"): 1}


async def test_server_time_moves_with_the_tick(polls: PollHarness) -> None:
    await polls.start().ids()
    polls.poll.tick(1_768_730_400.0)
    assert (await polls.start().body())["server_time"] == "2026-01-18T10:00:00Z"
    polls.poll.tick(1_768_730_401.0)
    assert (await polls.start().body())["server_time"] == "2026-01-18T10:00:01Z"


async def test_ack_that_frees_a_miner_wakes_a_parked_poll(database: Database, clock: ManualClock) -> None:
    polls = PollHarness(database, commands_options(is_one_lease_per_miner=True))
    first, second = polls.send(), polls.send()
    assert await polls.start().ids() == [first]
    parked = polls.start(waits=True)
    await until(lambda: polls.poll.parked_count == 1)
    await asyncio.to_thread(polls.harness.ack, polls.caller, first, "succeeded")
    assert await parked.ids() == [second]


async def test_claim_that_only_held_commands_is_repeated(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "HOLD_ROUNDS_MAX", 1)
    monkeypatch.setattr(claims, "HOLD_ROWS", 3)
    polls = PollHarness(database, commands_options(is_one_lease_per_miner=True))
    first = polls.send()
    assert await polls.start().ids() == [first]
    for _ in range(20):
        polls.send()
    other = polls.harness.add_command(polls.site, polls.harness.add_miner(polls.site)).command_id
    assert await polls.start(limit=1).ids() == [other]
