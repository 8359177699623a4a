import asyncio

import pytest

from restante.core.errors import Conflict, NotAllowed
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.database.paging import PageRequest
from restante.identity import access_audit, api_keys
from restante.identity.grants import Role, checked_grants
from restante.jobs import batches, creators, jobs
from restante.jobs.runner import JobRunner
from tests.conftest import ManualClock
from tests.jobs.job_fixture import Even, JobFixture, run_until_idle


@pytest.fixture
def fixture(database: Database) -> JobFixture:
    return JobFixture(database)


def test_job_acts_once_on_every_row_that_matches(fixture: JobFixture) -> None:
    job = fixture.create(Even(even=True))
    assert (job.state, job.total, job.done) == ("queued", 12, 0)
    fixture.run()
    done = fixture.show(job.job_id)
    assert (done.state, done.done, done.failed, done.skipped) == ("done", 12, 0, 0)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert fixture.counted() == list(range(2, 26, 2))
    assert [(item.item, item.ref, item.result) for item in fixture.items(job.job_id)][:2] == [
        (2, "n2", "4"),
        (4, "n4", "16"),
    ]


def test_rows_that_are_added_while_a_job_runs_are_not_part_of_it(fixture: JobFixture) -> None:
    fixture.create()
    fixture.target.highest = 40
    fixture.run()
    assert fixture.counted() == list(range(1, 26))


def test_refused_item_fails_alone(fixture: JobFixture) -> None:
    job = fixture.create(refused=[3, 25])
    fixture.run()
    done = fixture.show(job.job_id)
    assert (done.state, done.done, done.failed) == ("done", 23, 2)
    assert [(item.item, item.error) for item in fixture.items(job.job_id, "failed")] == [
        (3, "3 is refused"),
        (25, "25 is refused"),
    ]
    assert 3 not in fixture.counted()


def test_item_that_raises_an_unexpected_error_leaves_nothing_and_fails_alone(fixture: JobFixture) -> None:
    job = fixture.create(broken=[4, 5])
    fixture.run()
    done = fixture.show(job.job_id)
    assert (done.state, done.done, done.failed) == ("done", 23, 2)
    assert fixture.counted() == [number for number in range(1, 26) if number not in (4, 5)]
    assert fixture.items(job.job_id, "failed")[0].error == "ValueError: 4 is broken"


def test_item_that_a_limit_stops_waits_and_goes_on_later(fixture: JobFixture, clock: ManualClock) -> None:
    job = fixture.create(limited=[13])
    fixture.run()
    assert (fixture.show(job.job_id).state, fixture.counted()) == ("running", list(range(1, 13)))
    fixture.action.is_limited = False
    fixture.run()
    assert fixture.counted() == list(range(1, 13))
    clock.advance(46)
    fixture.run()
    assert (fixture.show(job.job_id).state, fixture.counted()) == ("done", list(range(1, 26)))


def test_rate_limits_the_items_of_a_second(fixture: JobFixture, clock: ManualClock) -> None:
    job = fixture.create(rate=5)
    runner = JobRunner(fixture.database, fixture.actions)
    fixture.run(runner)
    assert len(fixture.counted()) == 5
    clock.advance(0.5)
    fixture.run(runner)
    assert len(fixture.counted()) == 5
    for _ in range(5):
        clock.advance(1)
        fixture.run(runner)
    assert (fixture.show(job.job_id).state, len(fixture.counted())) == ("done", 25)


def test_paused_job_goes_on_where_it_stopped(fixture: JobFixture, clock: ManualClock) -> None:
    job = fixture.create(rate=10)
    runner = JobRunner(fixture.database, fixture.actions)
    fixture.run(runner)
    fixture.database.write_now(jobs.pause, fixture.actions, job.job_id, "ada")
    clock.advance(60)
    fixture.run(runner)
    assert (fixture.show(job.job_id).state, fixture.counted()) == ("paused", list(range(1, 11)))
    fixture.database.write_now(jobs.resume, fixture.actions, job.job_id, "ada")
    for _ in range(3):
        fixture.run(runner)
        clock.advance(1)
    assert (fixture.show(job.job_id).state, fixture.counted()) == ("done", list(range(1, 26)))


def test_aborted_job_does_nothing_more_and_cannot_be_resumed(fixture: JobFixture) -> None:
    job = fixture.create(rate=10)
    runner = JobRunner(fixture.database, fixture.actions)
    fixture.run(runner)
    fixture.database.write_now(jobs.abort, fixture.actions, job.job_id, "ada")
    fixture.run(runner)
    shown = fixture.show(job.job_id)
    assert (shown.state, shown.reason, shown.done) == ("aborted", "aborted by ada", 10)
    with pytest.raises(Conflict):
        fixture.database.write_now(jobs.resume, fixture.actions, job.job_id, "ada")
    assert fixture.database.write_now(jobs.abort, fixture.actions, job.job_id, "ada")["state"] == "aborted"


def test_two_runners_share_the_jobs_and_no_item_is_done_twice(fixture: JobFixture) -> None:
    first, second = (JobRunner(fixture.database, fixture.actions) for _ in range(2))
    for _ in range(3):
        fixture.create()

    async def run() -> None:
        await asyncio.gather(run_until_idle(first), run_until_idle(second))

    asyncio.run(run())
    fixture.run()
    assert sorted(fixture.counted()) == sorted(list(range(1, 26)) * 3)


def test_runner_whose_lease_has_ended_does_nothing(fixture: JobFixture, clock: ManualClock) -> None:
    job = fixture.create()
    runner, other = (JobRunner(fixture.database, fixture.actions) for _ in range(2))
    [pk] = fixture.database.write_now(batches.lease_due, "stalled", 15, 8)
    fixture.run(runner)
    assert fixture.counted() == []
    clock.advance(16)
    fixture.run(other)
    assert fixture.show(job.job_id).state == "done"
    outcome = fixture.database.write_now(batches.run_batch, fixture.actions, "stalled", 15, pk, 10)
    assert not outcome.is_held
    assert fixture.counted() == list(range(1, 26))


def test_job_survives_a_database_that_goes_away_in_a_batch(fixture: JobFixture) -> None:
    job = fixture.create()

    def fail_once(_conn: Connection, item: int) -> None:
        if item == 15:
            fixture.action.before_item = lambda _conn, _item: None
            raise DatabaseUnavailable("gone")

    fixture.action.before_item = fail_once
    runner = JobRunner(fixture.database, fixture.actions)
    with pytest.raises(DatabaseUnavailable):
        fixture.run(runner)
    fixture.run(runner)
    assert (fixture.show(job.job_id).state, fixture.counted()) == ("done", list(range(1, 26)))


@pytest.mark.parametrize("way", ["revoked", "suspended", "without the role"])
def test_job_pauses_when_its_creator_loses_the_right(fixture: JobFixture, way: str) -> None:
    job = fixture.create(rate=5)
    if way == "revoked":
        fixture.database.write_now(api_keys.revoke, fixture.key_id)
    elif way == "suspended":
        fixture.database.write_now(api_keys.set_suspended, fixture.key_id, "ada", is_suspended=True)
    else:
        grants = checked_grants([(Role.viewer, "all")])
        fixture.database.write_now(api_keys.set_grants, fixture.key_id, grants, "ada")
    fixture.run()
    shown = fixture.show(job.job_id)
    assert (shown.state, shown.reason, shown.done) == ("paused", creators.NO_RIGHTS, 0)
    assert fixture.counted() == []


def test_job_that_needs_approval_waits_for_another_person(fixture: JobFixture) -> None:
    fixture.action.approval = True
    job = fixture.create()
    fixture.run()
    assert (fixture.show(job.job_id).state, fixture.counted()) == ("pending_approval", [])
    with pytest.raises(NotAllowed):
        fixture.database.write_now(
            jobs.approve, fixture.actions, job.job_id, "eve@example.com", [f"key:{fixture.key_id}"]
        )
    fixture.database.write_now(jobs.approve, fixture.actions, job.job_id, "ada@example.com", ["person:1"])
    fixture.run()
    shown = fixture.show(job.job_id)
    assert (shown.state, shown.approved_by, shown.done) == ("done", "ada@example.com", 25)


def test_denied_job_never_runs(fixture: JobFixture) -> None:
    fixture.action.approval = True
    job = fixture.create()
    fixture.database.write_now(jobs.deny, fixture.actions, job.job_id, "ada", "not now")
    fixture.run()
    shown = fixture.show(job.job_id)
    assert (shown.state, shown.reason, fixture.counted()) == ("aborted", "denied by ada: not now", [])


def test_changes_of_a_job_are_audited(fixture: JobFixture) -> None:
    job = fixture.create()
    fixture.database.write_now(jobs.pause, fixture.actions, job.job_id, "ada")
    fixture.database.write_now(jobs.resume, fixture.actions, job.job_id, "ada")
    fixture.run()
    changes = fixture.database.read_now(access_audit.list_page, None, None, PageRequest(500, 0)).items
    events = [(change.actor, change.event) for change in reversed(changes) if change.event.startswith("job.")]
    assert events == [
        ("key:robot", "job.created"),
        ("ada", "job.paused"),
        ("ada", "job.resumed"),
        ("restante", "job.done"),
    ]


def test_ended_jobs_are_deleted_after_their_retention(fixture: JobFixture, clock: ManualClock) -> None:
    job = fixture.create()
    fixture.run()
    assert fixture.database.write_now(jobs.delete_old, 3600) == 0
    clock.advance(3601)
    deleted = 0
    while count := fixture.database.write_now(jobs.delete_old, 3600):
        deleted += count
    assert deleted == 26
    assert fixture.items_left() == 0
    with pytest.raises(Exception, match="no such job"):
        fixture.show(job.job_id)
