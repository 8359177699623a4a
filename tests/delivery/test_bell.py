from hypothesis import given
from hypothesis import strategies as st

from restante.delivery.bell import Bell


def bell(recipients_max: int = 100) -> Bell[int, str]:
    return Bell(recipients_max, lambda tail, known: tail > known)


def test_what_is_heard_is_known() -> None:
    ringing = bell()
    ringing.hear(1, 10)
    assert ringing.known == {1: 10}


def test_tails_only_move_forward() -> None:
    ringing = bell()
    ringing.hear(1, 10)
    ringing.hear(1, 9)
    assert ringing.known[1] == 10
    ringing.hear(1, 11)
    assert ringing.known[1] == 11


def test_a_read_that_began_before_news_cannot_put_older_knowledge_in_its_place() -> None:
    ringing = bell()
    stamp = ringing.stamp(1)
    ringing.hear(1, 11)
    ringing.learn(1, 10, stamp)
    assert ringing.known[1] == 11


def test_a_read_that_began_before_knowledge_was_dropped_may_not_teach() -> None:
    ringing = bell()
    stamp = ringing.stamp(1)
    ringing.hear(1, 11)
    ringing.forget_all()
    ringing.learn(1, 10, stamp)
    assert ringing.known == {}
    ringing.learn(1, 11, ringing.stamp(1))
    assert ringing.known == {1: 11}


def test_room_is_made_by_forgetting_and_a_read_under_way_may_not_teach_what_that_dropped() -> None:
    ringing = bell(recipients_max=8)
    generation = ringing.generation
    for recipient in range(8):
        ringing.hear(recipient, 11)
    assert ringing.generation == generation
    ringing.hear(8, 11)
    assert 0 not in ringing.known
    assert ringing.known[8] == 11
    ringing.learn(0, 10, (generation, 0))
    assert 0 not in ringing.known


def test_a_known_recipient_makes_nobody_forgotten() -> None:
    ringing = bell(recipients_max=2)
    ringing.hear(1, 1)
    ringing.hear(2, 1)
    ringing.hear(2, 2)
    assert ringing.known == {1: 1, 2: 2}


def test_even_the_smallest_bell_knows_whom_it_heard_of_last() -> None:
    for recipients_max in (0, 1):
        ringing = bell(recipients_max)
        for recipient in range(5):
            ringing.learn(recipient, 7, ringing.stamp(recipient))
            assert ringing.known == {recipient: 7}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=200), st.integers(1, 20))
def test_what_is_known_is_bounded_and_never_older_than_what_was_heard(
    news: list[tuple[int, int]], recipients_max: int
) -> None:
    ringing = bell(recipients_max)
    newest: dict[int, int] = {}
    for recipient, tail in news:
        # Tails of a recipient only grow, as those of a log do.
        newest[recipient] = newest.get(recipient, 0) + tail
        ringing.hear(recipient, newest[recipient])
        assert len(ringing.known) <= recipients_max
        assert all(newest[known] == tail for known, tail in ringing.known.items())


def test_waiters_are_found_by_recipient_and_leave() -> None:
    ringing = bell()
    for waiter, recipient in (("a", 1), ("b", 1), ("c", 2)):
        ringing.park(recipient, waiter)
    assert ringing.waiting_count == 3
    assert ringing.waiting_for(1) == ["a", "b"]
    assert list(ringing.everyone_waiting()) == ["a", "b", "c"]
    ringing.leave(1, "a")
    ringing.leave(1, "a")
    ringing.leave(2, "never there")
    ringing.leave(3, "nor here")
    assert (ringing.waiting_for(1), ringing.waiting_count) == (["b"], 2)
    ringing.leave(1, "b")
    assert ringing.waiting_for(1) == []
    assert list(ringing.everyone_waiting()) == ["c"]


def test_waiters_may_leave_while_everyone_is_told() -> None:
    ringing = bell()
    for waiter in "abcd":
        ringing.park(ord(waiter) % 2, waiter)
    for waiter in ringing.everyone_waiting():
        ringing.leave(ord(waiter) % 2, waiter)
    assert ringing.waiting_count == 0


def test_forgetting_does_not_send_anybody_away() -> None:
    ringing = bell()
    ringing.park(1, "a")
    ringing.forget_all()
    assert ringing.waiting_for(1) == ["a"]


def test_one_that_was_rung_is_forgotten_and_not_taught_by_a_read_that_began_before() -> None:
    ringing = bell()
    ringing.hear(1, 10)
    ringing.hear(2, 10)
    before, beside = ringing.stamp(1), ringing.stamp(2)
    ringing.forget(1)
    assert ringing.known == {2: 10}
    ringing.learn(1, 10, before)
    assert 1 not in ringing.known
    ringing.learn(2, 11, beside)
    ringing.learn(1, 11, ringing.stamp(1))
    assert ringing.known == {2: 11, 1: 11}


def test_what_was_rung_is_remembered_for_a_bounded_number() -> None:
    ringing = bell()
    before = ringing.stamp(0)
    for recipient in range(1, 200):
        ringing.forget(recipient)
    ringing.learn(0, 10, before)
    assert 0 not in ringing.known
    ringing.learn(0, 10, ringing.stamp(0))
    assert ringing.known[0] == 10
