from restante.commands.totals import CODE_CHARACTERS_MAX, CODES_MAX, OTHER, SITES_MAX, CommandTotals, Durations


def test_counts_by_label() -> None:
    totals = CommandTotals()
    totals.count_dispatched(1, "SET_FAN", 0.5)
    totals.count_dispatched(1, "SET_FAN", 2)
    totals.count_dispatched(2, "SET_FAN", 3)
    totals.count_acked(1, "succeeded")
    totals.count_failed("LEASE_EXPIRED")
    assert totals.dispatched.counts == {("1", "SET_FAN"): 2, ("2", "SET_FAN"): 1}
    assert totals.acked.counts == {("1", "succeeded"): 1}
    assert totals.failed.counts == {("LEASE_EXPIRED",): 1}
    assert totals.dispatch_durations.sum_seconds == 5.5


def test_sites_beyond_the_bound_are_counted_together() -> None:
    totals = CommandTotals()
    for site_id in range(SITES_MAX + 2):
        totals.count_acked(site_id, "succeeded")
    totals.count_acked(0, "succeeded")
    assert len(totals.acked.counts) == SITES_MAX + 1
    assert totals.acked.counts[OTHER, "succeeded"] == 2
    assert totals.acked.counts["0", "succeeded"] == 2


def test_collectors_cannot_make_labels_without_end() -> None:
    totals = CommandTotals()
    for n in range(CODES_MAX + 3):
        totals.count_failed(f"E{n}")
    totals.count_failed("x" * (CODE_CHARACTERS_MAX + 1))
    totals.count_failed("line\nbreak")
    assert len(totals.failed.counts) == CODES_MAX + 1
    assert totals.failed.counts[(OTHER,)] == 5


def test_a_histogram_counts_up() -> None:
    durations = Durations((1, 5))
    for seconds in (0.5, 1, 1.5, 9):
        durations.observe(seconds)
    assert durations.cumulative() == [("1.0", 2), ("5.0", 3), ("+Inf", 4)]
    assert durations.sum_seconds == 12


def test_a_clock_that_went_back_makes_no_negative_wait() -> None:
    totals = CommandTotals()
    totals.count_dispatched(1, "SET_FAN", -5)
    assert totals.dispatch_durations.sum_seconds == 0
