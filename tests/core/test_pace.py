import pytest

from restante.core.pace import CHANCE_PART, Pace

PACE = Pace(idle_seconds=0.05, idle_seconds_max=5.0, away_seconds=0.5, away_seconds_max=30.0)


def test_waits_double_up_to_the_last() -> None:
    idle = [PACE.after_nothing(looks, 0.0) for looks in range(1, 10)]
    assert idle == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    away = [PACE.after_failure(failures, 0.0) for failures in range(1, 9)]
    assert away == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30])


@pytest.mark.parametrize("count", [0, 1, 7, 100, 10_000])
@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_chance_shortens_a_little_and_never_lengthens(count: int, chance: float) -> None:
    for wait in (PACE.after_nothing, PACE.after_failure):
        assert wait(count, 0.0) * (1 - CHANCE_PART) <= wait(count, chance) <= wait(count, 0.0)


def test_a_first_wait_beyond_the_last_is_the_last() -> None:
    assert Pace(idle_seconds=10, idle_seconds_max=2).after_nothing(1, 0.0) == 2
