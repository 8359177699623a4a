from restante.commands.lifecycle.ordering import PRIORITY_MAX, rank_of

HOUR_MS = 3_600_000


def test_priority_decides_before_age() -> None:
    assert rank_of(1000, 5, 300) < rank_of(0, 4, 300)
    assert rank_of(0, 0, 300) < rank_of(1, 0, 300)


def test_low_priority_overtakes_after_waiting_long_enough() -> None:
    assert rank_of(0, 0, 300) < rank_of(300_001, 1, 300)
    assert rank_of(0, 0, 300) > rank_of(299_999, 1, 300)


def test_without_ageing_priority_alone_decides() -> None:
    century_ms = 100 * 365 * 24 * HOUR_MS
    assert rank_of(0, 0, 0) > rank_of(century_ms, 1, 0)
    assert rank_of(0, 1, 0) < rank_of(1, 1, 0)


def test_lowest_rank_fits_into_64_bits() -> None:
    assert abs(rank_of(0, PRIORITY_MAX, 0)) < 2**63
