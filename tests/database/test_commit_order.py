import threading
from functools import partial

from restante.database.commit_order import CommitOrder

SOON = 10.0


def test_one_after_the_other_needs_no_waiting() -> None:
    order, told = CommitOrder(), list[str]()
    for name in "ab":
        order.tell(order.take_ticket(), partial(told.append, name))
    assert told == ["a", "b"]


def test_who_began_later_is_told_later_whoever_is_first_to_hear() -> None:
    order, told = CommitOrder(), list[str]()
    first, second = order.take_ticket(), order.take_ticket()
    later = threading.Thread(target=order.tell, args=(second, lambda: told.append("second")))
    later.start()
    order.tell(first, lambda: told.append("first"))
    later.join(SOON)
    assert told == ["first", "second"]


def test_one_that_has_nothing_to_tell_holds_nobody_up() -> None:
    order, told = CommitOrder(), list[str]()
    silent, other = order.take_ticket(), order.take_ticket()
    waiting = threading.Thread(target=order.tell, args=(other, lambda: told.append("other")))
    waiting.start()
    order.give_back(silent)
    waiting.join(SOON)
    assert told == ["other"]
