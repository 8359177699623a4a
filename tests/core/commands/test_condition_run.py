from restante.core.commands.condition_run import ConditionRun, earliest_fire_at, extend_run, fires_at

GAP_MS = 300_000
# The collector's clock is an hour behind the server's: only durations may be compared.
SERVER = 3_600_000


def run_of(*seconds: int) -> ConditionRun:
    """A run of samples at these seconds of the collector's clock, received without delay."""
    run = None
    for second in seconds:
        run = extend_run(run, second * 1000, SERVER + second * 1000, GAP_MS)
    assert run is not None
    return run


def fires(run: ConditionRun, duration_seconds: int, cooldown_until_second: int = -SERVER) -> float | None:
    fire_at = fires_at(run, duration_seconds * 1000, GAP_MS, SERVER + cooldown_until_second * 1000)
    return None if fire_at is None else (fire_at - SERVER) / 1000


def test_one_sample_is_not_a_duration() -> None:
    assert fires(run_of(100), 60) is None


def test_one_sample_fires_if_there_is_no_duration() -> None:
    assert fires(run_of(100), 0) == 100


def test_second_sample_after_the_duration_fires_at_once() -> None:
    assert fires(run_of(100, 160), 60) == 160


def test_run_fires_without_a_sample_once_the_duration_has_passed() -> None:
    assert fires(run_of(100, 140), 60) == 160


def test_run_does_not_fire_after_the_gap() -> None:
    assert fires(run_of(100, 110), 310) == 410
    assert fires(run_of(100, 110), 311) is None


def test_samples_further_apart_than_the_gap_start_a_new_run() -> None:
    assert run_of(100, 400) == ConditionRun(100_000, 400_000, SERVER + 400_000)
    assert run_of(100, 401) == ConditionRun(401_000, 401_000, SERVER + 401_000)


def test_cooldown_delays_firing_but_not_beyond_the_gap() -> None:
    assert fires(run_of(100, 160), 60, cooldown_until_second=200) == 200
    assert fires(run_of(100, 160), 60, cooldown_until_second=460) == 460
    assert fires(run_of(100, 160), 60, cooldown_until_second=461) is None


def test_late_samples_count_by_their_record_time() -> None:
    run = extend_run(ConditionRun(0, 0, SERVER), 60_000, SERVER, GAP_MS)
    assert fires_at(run, 60_000, GAP_MS, 0) == SERVER


def test_earliest_fire_time_is_one_duration_after_the_start_of_the_run() -> None:
    assert earliest_fire_at(run_of(100), 60_000, 0) == SERVER + 160_000
    assert earliest_fire_at(run_of(100, 130), 60_000, 0) == SERVER + 160_000
    assert earliest_fire_at(run_of(100, 130), 60_000, SERVER + 200_000) == SERVER + 200_000
