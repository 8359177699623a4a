import pytest

from restante.core.errors import BadInput, Conflict, NotAllowed
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.identity import api_keys
from restante.jobs import creators, jobs
from restante.jobs.rollouts import rollout_views, rollouts
from restante.jobs.rollouts.waves import Wave, check_waves, filter_of, items_max
from tests.conftest import ManualClock
from tests.jobs.job_fixture import Even
from tests.jobs.rollouts.rollout_fixture import RolloutFixture


@pytest.fixture
def fixture(database: Database, clock: ManualClock) -> RolloutFixture:
    return RolloutFixture(database, clock)


def test_next_wave_begins_when_the_current_one_reports_success(fixture: RolloutFixture) -> None:
    shown = fixture.start(Wave(count=5), Wave(percent=20), Wave(percent=100))
    assert (shown.state, shown.wave, shown.total) == ("running", 1, 100)
    assert fixture.counted() == list(range(1, 6))
    fixture.look(60)
    assert fixture.counted() == list(range(1, 6))
    fixture.report("succeeded", *range(1, 6))
    shown = fixture.look()
    assert (shown.wave, fixture.counted()) == (2, list(range(1, 21)))
    assert [(wave.state, wave.succeeded, wave.waiting) for wave in shown.waves] == [
        ("done", 5, 0),
        ("running", 0, 15),
        ("planned", 0, 0),
    ]
    fixture.report("succeeded", *range(6, 20))
    assert fixture.look(5).wave == 2, "the wave is not old enough"
    assert fixture.look(6).wave == 3
    assert fixture.counted() == list(range(1, 101))
    fixture.report("succeeded", *range(1, 101))
    done = fixture.look(11)
    assert (done.state, done.succeeded, done.failed, done.waiting) == ("done", 100, 0, 0)


def test_too_many_failures_pause_the_rollout_and_resuming_accepts_them(fixture: RolloutFixture) -> None:
    fixture.start(Wave(count=20), Wave(percent=100))
    fixture.report("succeeded", *range(1, 18))
    fixture.report("failed", 18, 19, 20)
    shown = fixture.look(30)
    assert (shown.state, shown.reason) == ("paused", "3 of 20 failed, more than 10 %")
    fixture.look(600)
    assert len(fixture.counted()) == 20
    resumed = fixture.change(rollouts.resume, "ada")
    assert resumed.state == "running"
    assert fixture.look(11).wave == 2
    assert len(fixture.counted()) == 100


def test_items_that_were_refused_count_as_failed(fixture: RolloutFixture) -> None:
    fixture.rolled.before_item = lambda _conn, item: _refuse(item)
    fixture.start(Wave(count=20), Wave(percent=100))
    shown = fixture.look(30)
    assert (shown.state, shown.failed) == ("paused", 5)


def _refuse(item: int) -> None:
    if item <= 5:
        raise Conflict(f"{item} is refused")


def test_missing_success_pauses_the_rollout_after_the_longest_time_of_a_wave(fixture: RolloutFixture) -> None:
    fixture.start(Wave(count=10), Wave(percent=100), max_wave_seconds=100, boost=True)
    fixture.report("succeeded", *range(1, 9))
    assert fixture.look(50).state == "running"
    assert fixture.rolled.paced > 0
    shown = fixture.look(60)
    assert (shown.state, shown.reason) == ("paused", "2 of 10 have not reported success in time")
    page = fixture.database.read_now(
        lambda conn: rollout_views.laggards(
            conn, fixture.actions, rollouts.find(conn, fixture.rollout_id), PageRequest(100, 0)
        )
    )
    assert [laggard.item for laggard in page.items] == [9, 10]


def test_paused_rollout_hands_out_nothing_and_goes_on_later(fixture: RolloutFixture) -> None:
    fixture.start(Wave(percent=100), min_wave_seconds=0)
    fixture.change(rollouts.pause, "ada")
    fixture.change(rollouts.pause, "ada")
    assert fixture.look().state == "paused"
    fixture.change(rollouts.resume, "ada")
    fixture.report("succeeded", *range(1, 101))
    assert fixture.look().state == "done"


def test_wave_by_filter_comes_first_and_its_items_are_not_changed_again(fixture: RolloutFixture) -> None:
    fixture.start(Wave(filter={"even": True}), Wave(percent=60), Wave(percent=100), min_wave_seconds=0)
    assert fixture.counted() == list(range(2, 101, 2))
    fixture.report("succeeded", *range(1, 101))
    fixture.look()
    # 60 percent are 60 items, of which 50 have it already.
    assert sorted(fixture.counted()) == sorted([*range(2, 101, 2), *range(1, 21, 2)])
    fixture.look()
    assert sorted(fixture.counted()) == list(range(1, 101))
    assert fixture.look().state == "done"


def test_rollout_is_rolled_back_for_every_item_that_got_it(fixture: RolloutFixture) -> None:
    fixture.start(Wave(count=10), Wave(percent=100))
    shown = fixture.roll_back()
    assert shown.state == "rolling_back"
    fixture.look()
    fixture.look()
    assert fixture.shown().state == "rolled_back"
    undone = fixture.show(shown.roll_back_job_id or "")
    assert (undone.state, undone.total, undone.done) == ("done", 10, 10)
    assert len(fixture.counted()) == 10
    with pytest.raises(Conflict):
        fixture.roll_back()


def test_aborted_rollout_begins_no_wave_and_can_be_rolled_back(fixture: RolloutFixture) -> None:
    fixture.start(Wave(count=10), Wave(percent=100))
    assert fixture.change(rollouts.abort, "ada").state == "aborted"
    fixture.report("succeeded", *range(1, 11))
    fixture.look(60)
    assert len(fixture.counted()) == 10
    with pytest.raises(Conflict):
        fixture.change(rollouts.resume, "ada")
    assert fixture.roll_back().state == "rolling_back"


def test_operator_begins_the_next_wave_without_waiting(fixture: RolloutFixture) -> None:
    fixture.start(Wave(count=10), Wave(count=10), Wave(percent=100))
    assert fixture.change(rollouts.advance, "ada").wave == 2
    fixture.look()
    assert len(fixture.counted()) == 20


def test_rollout_pauses_when_its_creator_loses_the_right(fixture: RolloutFixture) -> None:
    fixture.start(Wave(count=10), Wave(percent=100), min_wave_seconds=0)
    fixture.report("succeeded", *range(1, 11))
    fixture.database.write_now(api_keys.revoke, fixture.key_id)
    shown = fixture.look()
    assert (shown.state, shown.reason) == ("paused", creators.NO_RIGHTS)
    assert len(fixture.counted()) == 10


def test_rollout_that_needs_approval_waits_for_another_person(fixture: RolloutFixture) -> None:
    fixture.rolled.approval = True
    assert fixture.start(Wave(percent=100)).state == "pending_approval"
    with pytest.raises(NotAllowed):
        fixture.change(rollouts.approve, "eve@example.com", [f"key:{fixture.key_id}"])
    fixture.change(rollouts.approve, "ada@example.com", ["person:1"])
    fixture.look()
    assert len(fixture.counted()) == 100
    [wave] = fixture.shown().waves
    assert fixture.show(wave.job_id or "").approved_by == "ada@example.com"


def test_aborted_job_of_a_wave_pauses_the_rollout(fixture: RolloutFixture) -> None:
    shown = fixture.start(Wave(percent=100))
    fixture.target.highest = 1000
    job_id = shown.waves[0].job_id or ""
    with pytest.raises(Conflict):
        fixture.database.write_now(jobs.abort, fixture.actions, job_id, "ada")
    assert fixture.look().state == "running"


def test_ended_rollouts_are_deleted_with_their_jobs_after_their_retention(fixture: RolloutFixture) -> None:
    fixture.start(Wave(percent=100), min_wave_seconds=0)
    fixture.report("succeeded", *range(1, 101))
    assert fixture.look().state == "done"
    fixture.clock.advance(3601)
    assert fixture.database.write_now(jobs.delete_old, 3600) == 0
    assert fixture.database.write_now(rollouts.delete_old, 3600) == 1
    while fixture.database.write_now(jobs.delete_old, 3600):
        pass
    assert fixture.items_left() == 0


@pytest.mark.parametrize(
    "planned",
    [
        [Wave()],
        [Wave(percent=10, count=5)],
        [Wave(percent=50), Wave(percent=50)],
        [Wave(percent=50), Wave(count=5), Wave(percent=10)],
    ],
)
def test_impossible_waves_are_refused(planned: list[Wave]) -> None:
    with pytest.raises(BadInput, match="waves"):
        check_waves(planned)


def test_sizes_of_waves() -> None:
    assert items_max(Wave(percent=1), 10, 0) == 1
    assert items_max(Wave(percent=10), 1000, 40) == 60
    assert items_max(Wave(percent=10), 1000, 200) == 0
    assert items_max(Wave(percent=100), 10, 5) is None
    assert items_max(Wave(count=7), 10, 5) == 7


def test_wave_cannot_change_the_filter_of_its_rollout() -> None:
    with pytest.raises(BadInput, match="even"):
        filter_of(Wave(filter={"even": False}), Even(even=True), "waves[0].filter")
