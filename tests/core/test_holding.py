from restante.core.holding import Holding, acts_at, held_on, long_enough_at

GAP_MS = 300_000
# The collector's clock is an hour behind the server's: only lengths may be compared.
SERVER = 3_600_000


def stretch(*seconds: int) -> Holding:
    """Samples for which it holds, at these seconds of the collector's clock, heard as they are made."""
    holding = None
    for second in seconds:
        holding = held_on(holding, second * 1000, SERVER + second * 1000, GAP_MS)
    assert holding is not None
    return holding


def acts(holding: Holding, duration_seconds: int, quiet_until_second: int = -SERVER) -> float | None:
    moment = acts_at(holding, duration_seconds * 1000, GAP_MS, SERVER + quiet_until_second * 1000)
    return None if moment is None else (moment - SERVER) / 1000


def test_one_sample_is_no_duration() -> None:
    assert acts(stretch(100), 60) is None


def test_without_a_duration_one_sample_is_enough() -> None:
    assert acts(stretch(100), 0) == 100


def test_two_samples_that_far_apart_act_when_the_second_comes() -> None:
    assert acts(stretch(100, 160), 60) == 160


def test_between_samples_it_is_a_matter_of_waiting() -> None:
    assert acts(stretch(100, 140), 60) == 160


def test_waiting_ends_with_the_gap() -> None:
    assert acts(stretch(100, 110), 310) == 410
    assert acts(stretch(100, 110), 311) is None


def test_samples_too_far_apart_are_two_stretches() -> None:
    assert stretch(100, 400) == Holding(100_000, 400_000, SERVER + 400_000)
    assert stretch(100, 401) == Holding(401_000, 401_000, SERVER + 401_000)


def test_quiet_is_waited_for_while_what_was_heard_is_fresh() -> None:
    assert acts(stretch(100, 160), 60, quiet_until_second=200) == 200
    assert acts(stretch(100, 160), 60, quiet_until_second=460) == 460
    assert acts(stretch(100, 160), 60, quiet_until_second=461) is None


def test_late_samples_count_by_their_own_time() -> None:
    holding = held_on(Holding(0, 0, SERVER), 60_000, SERVER, GAP_MS)
    assert acts_at(holding, 60_000, GAP_MS, 0) == SERVER


def test_where_others_may_hear_more_it_is_long_enough_a_duration_after_its_beginning() -> None:
    assert long_enough_at(stretch(100), 60_000, 0) == SERVER + 160_000
    assert long_enough_at(stretch(100, 130), 60_000, 0) == SERVER + 160_000
    assert long_enough_at(stretch(100, 130), 60_000, SERVER + 200_000) == SERVER + 200_000
