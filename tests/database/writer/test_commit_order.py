import threading
from functools import partial

from restante.database.writer.commit_order import CommitOrder

TIMEOUT_SECONDS = 10.0


def test_commits_one_after_another_do_not_wait() -> None:
    order, published = CommitOrder(), list[str]()
    for name in "ab":
        order.publish_in_order(order.issue_ticket(), partial(published.append, name))
    assert published == ["a", "b"]


def test_later_ticket_is_published_later_even_if_its_commit_returns_first() -> None:
    order, published = CommitOrder(), list[str]()
    first, second = order.issue_ticket(), order.issue_ticket()
    later = threading.Thread(target=order.publish_in_order, args=(second, lambda: published.append("second")))
    later.start()
    order.publish_in_order(first, lambda: published.append("first"))
    later.join(TIMEOUT_SECONDS)
    assert published == ["first", "second"]


def test_released_ticket_delays_no_other() -> None:
    order, published = CommitOrder(), list[str]()
    without_events, other = order.issue_ticket(), order.issue_ticket()
    waiting = threading.Thread(target=order.publish_in_order, args=(other, lambda: published.append("other")))
    waiting.start()
    order.release_ticket(without_events)
    waiting.join(TIMEOUT_SECONDS)
    assert published == ["other"]
