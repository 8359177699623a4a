import asyncio

from restante.delivery.wakeup import Wakeup

SOON = 10.0


async def test_wait_ends_when_woken_or_timed_out() -> None:
    wakeup = Wakeup()
    await asyncio.wait_for(wakeup.wait(0.001), SOON)
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    wakeup.wake()
    await asyncio.wait_for(waiting, SOON)


async def test_wake_up_without_a_waiter_is_kept_and_counts_once() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    wakeup.wake()
    await asyncio.wait_for(wakeup.wait(), SOON)
    second = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    assert not second.done()
    second.cancel()


async def test_stop_wakes_and_sets_is_stopping() -> None:
    wakeup = Wakeup()
    assert not wakeup.is_stopping
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    wakeup.stop()
    await asyncio.wait_for(waiting, SOON)
    assert wakeup.is_stopping


async def test_pause_is_not_ended_by_a_wake_up_which_is_kept() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    pausing = asyncio.create_task(wakeup.pause(3600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not pausing.done()
    await asyncio.wait_for(wakeup.wait(), SOON)
    wakeup.stop()
    await asyncio.wait_for(pausing, SOON)
    await asyncio.wait_for(Wakeup().pause(0.001), SOON)
