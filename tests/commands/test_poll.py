"""The poll without HTTP: what is answered from memory, who is woken, and that each poll is answered once."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from restante.commands.claims import Claim
from restante.commands.creation import CommandWish, create
from restante.commands.poll import ParkedClaim
from restante.commands.queue import CommandsChanged
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.identity.callers import CollectorCaller
from restante.web.answer import Answer
from tests.commands.field import ACTOR, Field
from tests.conftest import ManualClock


class Asked:
    """A poll and the answers it got."""

    def __init__(self, polls: "Polls", caller: CollectorCaller, limit: int, zone_id: int | None, waits: bool) -> None:
        self.answers: list[Answer] = []
        self.parked: ParkedClaim = polls.poll.start(Claim(caller, zone_id, limit), waits, self.answers.append)

    async def body(self) -> dict[str, Any]:
        await until(lambda: bool(self.answers))
        assert len(self.answers) == 1
        assert self.answers[0].status == 200
        found: dict[str, Any] = json.loads(self.answers[0].body)
        return found

    async def ids(self) -> list[str]:
        return [command["command_id"] for command in (await self.body())["commands"]]


class Polls:
    def __init__(self, database: Database) -> None:
        self.field = Field(database)
        self.field.listen(asyncio.get_running_loop())
        self.poll = self.field.parts.poll
        self.site = self.field.add_site()
        self.miner = self.field.add_miner(self.site)
        self.caller = self.field.hire(self.site).caller

    def ask(
        self,
        caller: CollectorCaller | None = None,
        *,
        limit: int = 10,
        zone_id: int | None = None,
        waits: bool = False,
    ) -> Asked:
        return Asked(self, caller or self.caller, limit, zone_id, waits)

    async def park(self, caller: CollectorCaller | None = None, **options: Any) -> Asked:
        before = self.poll.bell.waiting_count
        asked = self.ask(caller, waits=True, **options)
        await until(lambda: self.poll.bell.waiting_count == before + 1)
        return asked

    def send(self, **wish: Any) -> str:
        return self.field.send(self.site, self.miner, **wish).command_id

    @property
    def writes(self) -> int:
        return self.field.database.writes


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to be so")


@pytest.fixture
async def polls(database: Database) -> Polls:
    return Polls(database)


async def test_hands_out_what_is_there(polls: Polls) -> None:
    sent = polls.send()
    assert await polls.ask().ids() == [sent]


async def test_an_idle_poll_does_no_io(polls: Polls) -> None:
    assert await polls.ask().ids() == []
    before = polls.writes
    for _ in range(3):
        body = await polls.ask().body()
        assert body["commands"] == []
        assert polls.poll.idle_at_once(polls.caller, None) is not None
    assert polls.writes == before


async def test_after_the_last_command_the_site_is_quiet_until_its_lease_ends(polls: Polls) -> None:
    polls.send()
    await asyncio.sleep(0)  # the ring is heard
    await polls.ask().ids()
    quiet = polls.poll.bell.quiet(polls.site, None)
    assert quiet is not None
    assert 0 < quiet.until - asyncio.get_running_loop().time() <= 60.5


async def test_while_more_is_there_nothing_is_known_to_be_quiet(polls: Polls) -> None:
    for _ in range(3):
        polls.send()
    await polls.ask(limit=2).ids()
    assert polls.poll.bell.quiet(polls.site, None) is None


async def test_held_back_is_told_from_memory_too(polls: Polls) -> None:
    for _ in range(7):
        polls.send(command_type="MINER_RESTART")
    await asyncio.sleep(0)  # the rings are heard
    assert (await polls.ask().body())["rate_limited_count"] == 2
    before = polls.writes
    assert (await polls.ask().body())["rate_limited_count"] == 2
    assert polls.writes == before


async def test_a_new_command_ends_the_quiet(polls: Polls) -> None:
    await polls.ask().ids()
    sent = polls.send()
    await until(lambda: polls.poll.bell.quiet(polls.site, None) is None)
    assert await polls.ask().ids() == [sent]


async def test_a_waiting_poll_is_answered_when_a_command_comes(polls: Polls) -> None:
    asked = await polls.park()
    sent = polls.send()
    assert await asked.ids() == [sent]


async def test_one_waiter_is_woken_for_each_command(polls: Polls) -> None:
    waiting = [await polls.park(limit=1) for _ in range(5)]
    looks = polls.writes
    sent = [polls.send() for _ in range(2)]
    assert [await asked.ids() for asked in waiting[:2]] == [[sent[0]], [sent[1]]]
    await asyncio.sleep(0.05)
    assert polls.poll.bell.waiting_count == 3
    # Two commands made, two claims: nobody else has looked.
    assert polls.writes == looks + 4


async def test_one_ring_for_many_commands_wakes_as_many_as_are_needed(polls: Polls) -> None:
    waiting = [await polls.park(limit=2) for _ in range(4)]
    wish = CommandWish(site_id=polls.site, miner_id=polls.miner, command_type="SET_FAN", params=b'{"speed":5}')

    def five(conn: Connection) -> list[str]:
        return [create(conn, polls.field.trail, wish, ACTOR).command_id for _ in range(5)]

    sent = polls.field.database.write_now(five)
    got = [each for asked in waiting[:3] for each in await asked.ids()]
    assert got == sent
    await until(lambda: polls.poll.bell.waiting_count == 1)
    assert waiting[3].answers == []


async def test_woken_for_nothing_waits_on(polls: Polls) -> None:
    asked = await polls.park()
    polls.field.hear([CommandsChanged(polls.site)])
    await until(lambda: polls.poll.bell.waiting_count == 1)
    assert asked.answers == []
    sent = polls.send()
    assert await asked.ids() == [sent]


async def test_a_ring_during_a_look_is_not_missed(polls: Polls) -> None:
    asked = polls.ask(waits=True)
    polls.poll.bell.ring(polls.site)
    await until(lambda: polls.poll.bell.waiting_count == 1)
    assert polls.poll.bell.last_ring(polls.site) == asked.parked.looked_at


async def test_a_waiter_of_another_zone_passes_the_ring_on(polls: Polls) -> None:
    zone, other = polls.field.add_zone(polls.site), polls.field.add_zone(polls.site)
    miner = polls.field.add_miner(polls.site, zone)
    first = await polls.park(polls.field.hire(polls.site, other).caller)
    second = await polls.park(zone_id=other)
    third = await polls.park(polls.field.hire(polls.site, zone).caller)
    sent = polls.field.send(polls.site, miner)
    assert await third.ids() == [sent.command_id]
    await until(lambda: polls.poll.bell.waiting_count == 2)
    assert first.answers == second.answers == []


async def test_a_foreign_commit_has_the_waiters_look(polls: Polls) -> None:
    asked = await polls.park()
    polls.field.hear([ForeignCommit()])
    await until(lambda: polls.poll.bell.waiting_count == 1)
    assert asked.answers == []
    assert polls.poll.bell.quiet(polls.site, None) is not None


async def test_a_waiter_is_woken_when_a_moment_comes(polls: Polls, clock: ManualClock) -> None:
    polls.send()
    given = await polls.ask().body()
    command_id = given["commands"][0]["command_id"]
    polls.field.ack(polls.caller, command_id, "deferred", retry_after_sec=1)
    await asyncio.sleep(0.02)
    asked = await polls.park()
    clock.advance(1)
    assert await asked.ids() == [command_id]


async def test_when_the_time_is_over_the_answer_is_empty(polls: Polls) -> None:
    asked = await polls.park()
    polls.poll.expire(asked.parked)
    assert await asked.ids() == []
    assert polls.poll.bell.waiting_count == 0
    polls.send()
    await asyncio.sleep(0.05)
    assert len(asked.answers) == 1


async def test_time_over_during_a_claim_lets_it_finish(polls: Polls) -> None:
    sent = polls.send()
    asked = polls.ask(waits=True)
    polls.poll.expire(asked.parked)
    assert asked.answers == []
    assert await asked.ids() == [sent]


async def test_who_hangs_up_waits_no_more(polls: Polls) -> None:
    gone, here = await polls.park(), await polls.park()
    polls.poll.abandon(gone.parked)
    sent = polls.send()
    assert await here.ids() == [sent]
    assert gone.answers == []


async def test_nothing_is_claimed_for_who_has_gone(polls: Polls) -> None:
    sent = polls.send()
    here = polls.ask(waits=True)
    assert await here.ids() == [sent]
    second = polls.send()
    gone = polls.ask()
    polls.poll.abandon(gone.parked)
    await asyncio.sleep(0.05)
    assert gone.answers == []
    assert await polls.ask().ids() == [second]


async def test_closing_answers_who_waits_and_parks_no_more(polls: Polls) -> None:
    asked = await polls.park()
    polls.poll.close()
    assert await asked.ids() == []
    assert await polls.ask(waits=True).ids() == []


async def test_a_refusal_is_answered(polls: Polls) -> None:
    asked = polls.ask(zone_id=999)
    await until(lambda: bool(asked.answers))
    assert asked.answers[0].status == 403
    polls.field.database.close()
    unavailable = polls.ask()
    await until(lambda: bool(unavailable.answers))
    assert unavailable.answers[0].status == 503


async def test_what_is_known_of_a_zone_is_not_told_to_a_collector_of_another(polls: Polls) -> None:
    zone, other = polls.field.add_zone(polls.site), polls.field.add_zone(polls.site)
    assert await polls.ask(zone_id=zone).ids() == []
    stranger = polls.field.hire(polls.site, other).caller
    assert polls.poll.idle_at_once(polls.caller, zone) is not None
    assert polls.poll.idle_at_once(stranger, zone) is None


async def test_a_poll_is_seen_and_counted(polls: Polls) -> None:
    polls.send()
    await polls.ask().ids()
    assert polls.caller.device_id in polls.field.parts.presence.seen
    assert polls.field.parts.totals.dispatched.counts == {(str(polls.site), "POWER_MODE"): 1}


async def test_server_time_moves_with_the_tick(polls: Polls) -> None:
    await polls.ask().ids()
    polls.poll.tick(1_768_730_400.0)
    assert (await polls.ask().body())["server_time"] == "2026-01-18T10:00:00Z"
    polls.poll.tick(1_768_730_401.0)
    assert (await polls.ask().body())["server_time"] == "2026-01-18T10:00:01Z"
