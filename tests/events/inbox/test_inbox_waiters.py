from restante.delivery.long_poll import ParkedPoll
from restante.events.inbox.inbox_waiters import CLIENTS_MAX, InboxWaiters


def registry(clients_max: int = CLIENTS_MAX) -> InboxWaiters[ParkedPoll[None]]:
    return InboxWaiters(lambda _poll: None, clients_max=clients_max)


def test_read_that_began_before_a_notification_teaches_nothing() -> None:
    waiters = registry()
    notification = waiters.last_notified(1)
    waiters.notify(1)
    waiters.learn_empty(1, notification)
    waiters.learn_recorded(1, 10, notification)
    assert 1 not in waiters.empty
    assert not waiters.is_recorded(1, 1)
    waiters.learn_empty(1, waiters.last_notified(1))
    assert 1 in waiters.empty


def test_notification_concerns_one_client() -> None:
    waiters = registry()
    for client in (1, 2):
        waiters.learn_empty(client, waiters.last_notified(client))
        waiters.learn_recorded(client, 10, waiters.last_notified(client))
    waiters.notify(1)
    assert list(waiters.empty) == [2]
    assert [waiters.is_recorded(client, 10) for client in (1, 2)] == [False, True]
    assert not waiters.is_recorded(2, 11)


def test_forget_all_drops_empty_inboxes_and_recorded_polls() -> None:
    waiters = registry()
    waiters.learn_empty(1, waiters.last_notified(1))
    waiters.learn_recorded(1, 10, waiters.last_notified(1))
    waiters.forget_all()
    assert 1 not in waiters.empty
    assert not waiters.is_recorded(1, 1)


def test_memory_is_bounded() -> None:
    waiters = registry(clients_max=3)
    for client in range(10):
        waiters.notify(client)
        waiters.learn_recorded(client, 1, waiters.last_notified(client))
        waiters.learn_empty(client, waiters.last_notified(client))
    assert len(waiters.empty) <= 3
    assert len(waiters._recorded) <= 3
    assert len(waiters._notified) <= 3
