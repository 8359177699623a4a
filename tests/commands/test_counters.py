from restante.commands.counters import (
    CODE_CHARACTERS_MAX,
    CODES_MAX,
    OTHER,
    SITES_MAX,
    CommandCounters,
    DurationHistogram,
)


def test_events_are_counted_by_label() -> None:
    counters = CommandCounters()
    counters.count_dispatched(1, "SET_FAN", 0.5)
    counters.count_dispatched(1, "SET_FAN", 2)
    counters.count_dispatched(2, "SET_FAN", 3)
    counters.count_acked(1, "succeeded")
    counters.count_failed("LEASE_EXPIRED")
    assert counters.dispatched.counts == {("1", "SET_FAN"): 2, ("2", "SET_FAN"): 1}
    assert counters.acked.counts == {("1", "succeeded"): 1}
    assert counters.failed.counts == {("LEASE_EXPIRED",): 1}
    assert counters.dispatch_durations.sum_seconds == 5.5


def test_sites_beyond_the_bound_count_as_other() -> None:
    counters = CommandCounters()
    for site_id in range(SITES_MAX + 2):
        counters.count_acked(site_id, "succeeded")
    counters.count_acked(0, "succeeded")
    assert len(counters.acked.counts) == SITES_MAX + 1
    assert counters.acked.counts[OTHER, "succeeded"] == 2
    assert counters.acked.counts["0", "succeeded"] == 2


def test_number_of_code_labels_is_bounded() -> None:
    counters = CommandCounters()
    for n in range(CODES_MAX + 3):
        counters.count_failed(f"E{n}")
    counters.count_failed("x" * (CODE_CHARACTERS_MAX + 1))
    counters.count_failed("line\nbreak")
    assert len(counters.failed.counts) == CODES_MAX + 1
    assert counters.failed.counts[(OTHER,)] == 5


def test_histogram_buckets_are_cumulative() -> None:
    durations = DurationHistogram((1, 5))
    for seconds in (0.5, 1, 1.5, 9):
        durations.observe(seconds)
    assert durations.cumulative() == [("1.0", 2), ("5.0", 3), ("+Inf", 4)]
    assert durations.sum_seconds == 12


def test_negative_wait_counts_as_zero() -> None:
    counters = CommandCounters()
    counters.count_dispatched(1, "SET_FAN", -5)
    assert counters.dispatch_durations.sum_seconds == 0
