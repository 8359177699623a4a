from restante.events.totals import EventTotals


def test_everything_begins_at_nothing() -> None:
    assert not any(getattr(EventTotals(), name) for name in EventTotals.__slots__)
