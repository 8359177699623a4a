from restante.core.iso_time import iso_precise, iso_whole_seconds, parse_iso

TIME_MS = 1_768_730_400_250


def test_own_times_have_milliseconds() -> None:
    assert iso_precise(TIME_MS) == "2026-01-18T10:00:00.250Z"
    assert iso_precise(0) == "1970-01-01T00:00:00.000Z"
    assert iso_precise(None) is None


def test_times_of_collectors_have_whole_seconds() -> None:
    assert iso_whole_seconds(TIME_MS) == "2026-01-18T10:00:00Z"
    assert iso_whole_seconds(TIME_MS, is_rounded_up=True) == "2026-01-18T10:00:01Z"
    assert iso_whole_seconds(TIME_MS - 250, is_rounded_up=True) == "2026-01-18T10:00:00Z"


def test_numbers_beyond_the_calendar_become_the_nearest_time() -> None:
    assert iso_precise(10**18) == "9999-12-31T23:59:59.000Z"
    assert iso_precise(-(10**18)) == "1970-01-01T00:00:00.000Z"


def test_times_of_both_precisions_are_read() -> None:
    assert parse_iso("2026-01-18T10:00:00.250Z", "since") == TIME_MS
    assert parse_iso("2026-01-18T10:00:00Z", "since") == TIME_MS - 250
