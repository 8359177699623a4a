from restante.identity.remembered import Remembered


def test_a_caller_is_remembered_until_its_time_is_over() -> None:
    remembered: Remembered[str] = Remembered()
    remembered.keep(b"token", "caller", 100.0, remembered.generation)
    assert remembered.find(b"token", 99.0) == "caller"
    assert remembered.find(b"token", 100.0) is None
    assert remembered.find(b"other", 99.0) is None


def test_what_was_looked_up_before_everything_was_forgotten_is_not_kept() -> None:
    remembered: Remembered[str] = Remembered()
    generation = remembered.generation
    remembered.keep(b"before", "caller", 100.0, generation)
    remembered.forget_all()
    remembered.keep(b"late", "caller", 100.0, generation)
    assert remembered.find(b"before", 0.0) is None
    assert remembered.find(b"late", 0.0) is None
    assert len(remembered) == 0


def test_the_oldest_make_room() -> None:
    remembered: Remembered[int] = Remembered(2)
    for number in range(5):
        remembered.keep(b"%d" % number, number, 100.0, remembered.generation)
    assert len(remembered) == 2
    assert remembered.find(b"4", 0.0) == 4


def test_a_memory_for_none_keeps_none() -> None:
    remembered: Remembered[str] = Remembered(0)
    remembered.keep(b"token", "caller", 100.0, remembered.generation)
    assert len(remembered) == 0
