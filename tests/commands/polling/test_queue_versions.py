import pytest

from restante.commands.polling import queue_versions
from restante.commands.polling.queue_versions import QueueVersions


def connected(floor: int = 100) -> QueueVersions:
    versions = QueueVersions()
    versions.set_floor(floor)
    return versions


def test_no_claim_counts_before_a_floor_is_set() -> None:
    versions = QueueVersions()
    assert not versions.are_known
    assert not versions.were_seen(1, 10**9)
    versions.set_floor(100)
    assert versions.are_known
    assert versions.were_seen(1, 100)


def test_claim_below_the_floor_does_not_count() -> None:
    versions = connected(100)
    assert not versions.were_seen(1, 99)
    # Later floors are ignored: the versions received since the first one are known.
    versions.set_floor(200)
    assert versions.were_seen(1, 100)


def test_claim_counts_if_its_horizon_is_above_the_change() -> None:
    versions = connected()
    versions.changed(1, 150)
    assert not versions.were_seen(1, 150)
    assert versions.were_seen(1, 151)
    assert versions.were_seen(2, 100)


def test_changes_may_arrive_in_any_order() -> None:
    versions = connected()
    versions.changed(1, 150)
    versions.changed(1, 120)
    assert not versions.were_seen(1, 150)


def test_no_claim_counts_after_a_disconnect_until_a_new_floor() -> None:
    versions = connected()
    versions.forget_all()
    assert not versions.were_seen(1, 10**9)
    versions.set_floor(300)
    assert not versions.were_seen(1, 299)
    assert versions.were_seen(1, 300)


@pytest.mark.parametrize("is_connected", [True, False])
def test_overflow_raises_the_floor_above_all_dropped_changes(
    monkeypatch: pytest.MonkeyPatch, is_connected: bool
) -> None:
    monkeypatch.setattr(queue_versions, "SITES_MAX", 2)
    versions = connected() if is_connected else QueueVersions()
    versions.changed(1, 150)
    versions.changed(2, 170)
    versions.changed(2, 160)
    versions.changed(3, 110)
    versions.set_floor(400)
    floor = 171 if is_connected else 400
    assert [versions.were_seen(1, floor - 1), versions.were_seen(1, floor)] == [False, True]
