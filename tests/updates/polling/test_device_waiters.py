from hypothesis import given
from hypothesis import strategies as st

from restante.delivery.long_poll import ParkedPoll
from restante.updates.polling.poll import DeviceWaiters


def registry(devices_max: int = 100) -> DeviceWaiters[ParkedPoll[None]]:
    return DeviceWaiters(lambda _poll: None, devices_max)


def tail(number: int) -> bytes:
    return b"%d-0" % number


def test_advanced_tail_is_known() -> None:
    waiters = registry()
    waiters.advance(1, tail(10))
    assert waiters.known == {1: tail(10)}


def test_tails_only_move_forward() -> None:
    waiters = registry()
    waiters.advance(1, tail(10))
    waiters.advance(1, tail(9))
    assert waiters.known[1] == tail(10)
    waiters.advance(1, tail(11))
    assert waiters.known[1] == tail(11)


def test_tail_that_follows_the_known_one_is_not_compared() -> None:
    waiters = registry()
    waiters.advance(1, b"not a cursor")
    waiters.advance(1, b"another", follows=b"not a cursor")
    assert waiters.known[1] == b"another"


def test_read_that_began_before_a_publish_does_not_replace_the_newer_tail() -> None:
    waiters = registry()
    notification = waiters.last_notified(1)
    waiters.advance(1, tail(11))
    waiters.learn(1, tail(10), notification)
    assert waiters.known[1] == tail(11)


def test_read_that_began_before_knowledge_was_dropped_teaches_nothing() -> None:
    waiters = registry()
    notification = waiters.last_notified(1)
    waiters.advance(1, tail(11))
    waiters.forget_all()
    waiters.learn(1, tail(10), notification)
    assert waiters.known == {}
    waiters.learn(1, tail(11), waiters.last_notified(1))
    assert waiters.known == {1: tail(11)}


def test_read_that_began_before_room_was_made_does_not_restore_an_older_tail() -> None:
    waiters = registry(devices_max=8)
    notification = waiters.last_notified(0)
    for device_id in range(9):
        waiters.advance(device_id, tail(11))
    assert 0 not in waiters.known
    assert waiters.known[8] == tail(11)
    waiters.learn(0, tail(10), notification)
    assert 0 not in waiters.known


def test_known_device_drops_no_other() -> None:
    waiters = registry(devices_max=2)
    waiters.advance(1, tail(1))
    waiters.advance(2, tail(1))
    waiters.advance(2, tail(2))
    assert waiters.known == {1: tail(1), 2: tail(2)}


def test_smallest_registry_knows_the_device_it_learnt_last() -> None:
    for devices_max in (0, 1):
        waiters = registry(devices_max)
        for device_id in range(5):
            waiters.learn(device_id, tail(7), waiters.last_notified(device_id))
            assert waiters.known == {device_id: tail(7)}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=200), st.integers(1, 20))
def test_known_tails_are_bounded_and_never_older_than_the_published_ones(
    published: list[tuple[int, int]], devices_max: int
) -> None:
    waiters = registry(devices_max)
    newest: dict[int, int] = {}
    for device_id, step in published:
        # The tails of a device only grow, as those of a log do.
        newest[device_id] = newest.get(device_id, 0) + step
        waiters.advance(device_id, tail(newest[device_id]))
        assert len(waiters.known) <= devices_max
        assert all(tail(newest[known]) == found for known, found in waiters.known.items())


def test_notified_device_is_forgotten_and_not_taught_by_a_read_that_began_before() -> None:
    waiters = registry()
    waiters.advance(1, tail(10))
    waiters.advance(2, tail(10))
    before, beside = waiters.last_notified(1), waiters.last_notified(2)
    waiters.notify(1)
    assert waiters.known == {2: tail(10)}
    waiters.learn(1, tail(10), before)
    assert 1 not in waiters.known
    waiters.learn(2, tail(11), beside)
    waiters.learn(1, tail(11), waiters.last_notified(1))
    assert waiters.known == {2: tail(11), 1: tail(11)}


def test_notifications_are_remembered_for_a_bounded_number_of_devices() -> None:
    waiters = registry()
    before = waiters.last_notified(0)
    for device_id in range(1, 200):
        waiters.notify(device_id)
    waiters.learn(0, tail(10), before)
    assert 0 not in waiters.known
    waiters.learn(0, tail(10), waiters.last_notified(0))
    assert waiters.known[0] == tail(10)
