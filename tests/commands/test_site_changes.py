import pytest

from restante.commands import site_changes
from restante.commands.site_changes import SiteChanges


def in_touch(floor: int = 100) -> SiteChanges:
    changes = SiteChanges()
    changes.told_number(floor)
    return changes


def test_before_a_number_is_told_no_look_counts() -> None:
    changes = SiteChanges()
    assert not changes.are_known
    assert not changes.were_seen(1, 10**9)
    changes.told_number(100)
    assert changes.are_known
    assert changes.were_seen(1, 100)


def test_a_look_from_before_this_node_was_in_touch_does_not_count() -> None:
    changes = in_touch(100)
    assert not changes.were_seen(1, 99)
    # What is told later says nothing about what was heard since.
    changes.told_number(200)
    assert changes.were_seen(1, 100)


def test_a_look_counts_if_its_horizon_is_beyond_the_change() -> None:
    changes = in_touch()
    changes.changed(1, 150)
    assert not changes.were_seen(1, 150)
    assert changes.were_seen(1, 151)
    assert changes.were_seen(2, 100)


def test_changes_may_be_heard_in_any_order() -> None:
    changes = in_touch()
    changes.changed(1, 150)
    changes.changed(1, 120)
    assert not changes.were_seen(1, 150)


def test_after_touch_was_lost_everything_may_have_changed() -> None:
    changes = in_touch()
    changes.lost_touch()
    assert not changes.were_seen(1, 10**9)
    changes.told_number(300)
    assert not changes.were_seen(1, 299)
    assert changes.were_seen(1, 300)


@pytest.mark.parametrize("is_in_touch", [True, False])
def test_what_is_too_much_to_remember_is_doubted_together(monkeypatch: pytest.MonkeyPatch, is_in_touch: bool) -> None:
    monkeypatch.setattr(site_changes, "SITES_MAX", 2)
    changes = in_touch() if is_in_touch else SiteChanges()
    changes.changed(1, 150)
    changes.changed(2, 170)
    changes.changed(2, 160)
    changes.changed(3, 110)
    changes.told_number(400)
    floor = 171 if is_in_touch else 400
    assert [changes.were_seen(1, floor - 1), changes.were_seen(1, floor)] == [False, True]
