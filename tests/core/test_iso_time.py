from restante.core.iso_time import iso, iso_not_before, iso_or_none, iso_precise

TIME_MS = 1_768_730_400_250


def test_formats_seconds_milliseconds_and_none() -> None:
    assert iso(TIME_MS) == "2026-01-18T10:00:00Z"
    assert iso_precise(TIME_MS) == "2026-01-18T10:00:00.250Z"
    assert iso_or_none(None) is None
    assert iso_or_none(TIME_MS) == iso(TIME_MS)


def test_iso_not_before_rounds_up() -> None:
    assert iso_not_before(TIME_MS) == "2026-01-18T10:00:01Z"
    assert iso_not_before(TIME_MS - 250) == "2026-01-18T10:00:00Z"
