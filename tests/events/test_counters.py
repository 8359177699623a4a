from restante.events.counters import EventCounters


def test_counters_start_at_zero() -> None:
    assert not any(getattr(EventCounters(), name) for name in EventCounters.__slots__)
