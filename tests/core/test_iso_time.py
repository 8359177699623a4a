from restante.core.iso_time import iso, iso_not_before, iso_or_none, iso_precise

MOMENT = 1_768_730_400_250


def test_whole_seconds_milliseconds_and_none() -> None:
    assert iso(MOMENT) == "2026-01-18T10:00:00Z"
    assert iso_precise(MOMENT) == "2026-01-18T10:00:00.250Z"
    assert iso_or_none(None) is None
    assert iso_or_none(MOMENT) == iso(MOMENT)


def test_who_must_not_come_too_early_is_told_a_later_second() -> None:
    assert iso_not_before(MOMENT) == "2026-01-18T10:00:01Z"
    assert iso_not_before(MOMENT - 250) == "2026-01-18T10:00:00Z"
