import asyncio

from restante.delivery.alarm import Alarm

SOON = 10.0


async def test_a_wait_ends_when_rung_or_when_its_time_is_over() -> None:
    alarm = Alarm()
    await asyncio.wait_for(alarm.wait(0.001), SOON)
    waiting = asyncio.create_task(alarm.wait())
    await asyncio.sleep(0)
    alarm.ring()
    await asyncio.wait_for(waiting, SOON)


async def test_a_ring_while_nobody_waits_is_not_lost_and_counts_once() -> None:
    alarm = Alarm()
    alarm.ring()
    alarm.ring()
    await asyncio.wait_for(alarm.wait(), SOON)
    second = asyncio.create_task(alarm.wait())
    await asyncio.sleep(0)
    assert not second.done()
    second.cancel()


async def test_stopping_wakes_and_is_seen() -> None:
    alarm = Alarm()
    assert not alarm.is_stopping
    waiting = asyncio.create_task(alarm.wait())
    await asyncio.sleep(0)
    alarm.stop()
    await asyncio.wait_for(waiting, SOON)
    assert alarm.is_stopping


async def test_a_pause_is_not_cut_short_by_a_ring_which_is_kept() -> None:
    alarm = Alarm()
    alarm.ring()
    pausing = asyncio.create_task(alarm.pause(3600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not pausing.done()
    await asyncio.wait_for(alarm.wait(), SOON)
    alarm.stop()
    await asyncio.wait_for(pausing, SOON)
    await asyncio.wait_for(Alarm().pause(0.001), SOON)
