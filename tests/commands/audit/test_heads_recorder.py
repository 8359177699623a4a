from pathlib import Path

import pytest

from restante.commands.audit.audit_verify import LiveVerification, anchored_checkpoints
from restante.commands.audit.heads_recorder import HeadsOptions, HeadsRecorder
from restante.commands.audit.signed_heads import AnchorTarget
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from tests.commands.audit.test_chain_heads import checkpoint_of, heads_rows, set_back
from tests.commands.operator_fixture import MinerFleet
from tests.conftest import ManualClock

NORTH = 1


class Monotonic:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    return MinerFleet(database, clock)


def recorder_of(fleet: MinerFleet, folder: Path, monotonic: Monotonic | None = None) -> HeadsRecorder:
    options = HeadsOptions(
        interval_seconds=30, folder=folder, anchor=AnchorTarget(str(folder / "anchors")), anchor_seconds=60
    )
    return HeadsRecorder(fleet.database, fleet.trail, options, monotonic or Monotonic())


async def test_idle_rounds_write_nothing(fleet: MinerFleet, tmp_path: Path) -> None:
    recorder = recorder_of(fleet, tmp_path)
    await recorder.run_once()
    before = (heads_rows(fleet), fleet.database.writes, recorder.remembered.path.stat().st_mtime_ns)
    await recorder.run_once()
    # The query that counts rows is a write too.
    assert (heads_rows(fleet), fleet.database.writes - 1, recorder.remembered.path.stat().st_mtime_ns) == before


async def test_empty_trail_has_no_head(database: Database, tmp_path: Path, clock: ManualClock) -> None:
    fleet = MinerFleet(database, clock)
    for table in ("command_audit", "audit_checkpoints"):
        fleet.query(f"DELETE FROM {table} RETURNING chain")
    recorder = recorder_of(fleet, tmp_path)
    await recorder.run_once()
    assert (recorder.is_set_back, recorder.remembered.path.exists()) == (False, False)
    assert await recorder.record_all() is None


async def test_anchors_follow_their_schedule(fleet: MinerFleet, tmp_path: Path) -> None:
    monotonic = Monotonic()
    recorder = recorder_of(fleet, tmp_path, monotonic)
    for advance, expected in ((0, 1), (59, 1), (1, 2)):
        monotonic.now += advance
        fleet.create(dedupe_key=f"k{advance}")
        await recorder.run_once()
        assert recorder.anchored_count == expected
    lines = (tmp_path / "anchors").read_bytes().splitlines()
    anchors = anchored_checkpoints(lines, fleet.trail.mac)
    assert len(anchors) == 2
    assert fleet.verdict(LiveVerification(fleet.trail.mac, anchors)).intact


async def test_failed_anchor_is_counted_and_tried_again(fleet: MinerFleet, tmp_path: Path) -> None:
    recorder = recorder_of(fleet, tmp_path)
    (tmp_path / "anchors").mkdir()
    await recorder.run_once()
    assert (recorder.anchored_count, recorder.failed_anchors_count) == (0, 1)
    (tmp_path / "anchors").rmdir()
    await recorder.run_once()
    assert (recorder.anchored_count, recorder.failed_anchors_count) == (1, 1)


async def test_whole_trail_set_back_is_found_by_the_remembered_head(
    fleet: MinerFleet, tmp_path: Path, clock: ManualClock
) -> None:
    await recorder_of(fleet, tmp_path).run_once()
    older = [checkpoint_of(fleet, chain) for chain in (0, NORTH)]
    fleet.create()
    clock.advance(30)
    await recorder_of(fleet, tmp_path).run_once()
    remembered = recorder_of(fleet, tmp_path).remembered.checkpoints()
    for chain, checkpoint in zip((0, NORTH), older, strict=True):
        set_back(fleet, chain, checkpoint)
    assert fleet.verdict().intact
    assert not fleet.verdict(LiveVerification(fleet.trail.mac, remembered)).intact
    later = recorder_of(fleet, tmp_path)
    await later.run_once()
    assert later.is_set_back
    assert later.remembered.checkpoints() == remembered
    assert later.anchored_count == 0
    later.remembered.path.unlink()
    await later.run_once()
    assert not later.is_set_back


async def test_changed_file_is_replaced(fleet: MinerFleet, tmp_path: Path) -> None:
    recorder = recorder_of(fleet, tmp_path)
    recorder.remembered.path.write_bytes(b"{}")
    await recorder.run_once()
    assert not recorder.is_set_back
    assert len(recorder.remembered.checkpoints()) == 1


async def test_unavailable_database_does_not_end_the_service(
    fleet: MinerFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object) -> None:
        raise DatabaseUnavailable("gone")

    recorder = recorder_of(fleet, tmp_path)
    monkeypatch.setattr(fleet.database, "read", fail)
    await recorder.try_once()
    assert not recorder.remembered.path.exists()


async def test_heads_recorded_on_request_are_remembered(fleet: MinerFleet, tmp_path: Path) -> None:
    recorder = recorder_of(fleet, tmp_path)
    head = await recorder.record_all()
    assert head is not None
    assert heads_rows(fleet) == 1
    assert recorder.remembered.checkpoints() == [head.checkpoint()]
