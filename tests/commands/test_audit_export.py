import json

import pytest

from restante.commands import audit_export
from restante.commands.audit_export import ExportHeader
from restante.core.keyed_hash import KeyedHash
from restante.database.database import Database
from tests.commands.operators import World
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def test_the_first_line_says_how_far_each_chain_goes(world: World) -> None:
    header = world.database.read_now(audit_export.header, world.trail.mac, None)
    assert [(each.chain, each.n) for each in header.checkpoints] == [(0, 2), (1, 5), (2, 2)]
    assert header.at == START_MS
    assert ExportHeader.read(audit_export.as_line(header)) == header
    assert header.is_ours(world.trail.mac)
    assert not header.is_ours(KeyedHash(b"x" * 32))


def test_an_export_of_one_site(world: World) -> None:
    header = world.database.read_now(audit_export.header, world.trail.mac, 2)
    assert [each.chain for each in header.checkpoints] == [2]
    assert world.database.read_now(audit_export.header, world.trail.mac, 99).checkpoints == []


def test_rows_come_in_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_export, "BATCH_ROWS", 2)
    header = world.database.read_now(audit_export.header, world.trail.mac, 1)
    asked = list(audit_export.batches(header))
    assert asked == [(1, 0, 5), (1, 2, 5), (1, 4, 5)]
    numbers = [[row.n for row in world.database.read_now(audit_export.rows_between, *ask)] for ask in asked]
    assert numbers == [[1, 2], [3, 4], [5]]


def test_a_line_is_json_and_has_its_detail_as_it_was_hashed(world: World) -> None:
    made = world.create()
    (row,) = world.database.read_now(audit_export.rows_between, world.site_id, 5, 6)
    line = audit_export.as_line(row)
    assert json.loads(line)["command_id"] == made.command_id
    assert json.loads(line)["detail"]["command_type"] == "HASHING_ENABLE"
    audited, _hash = audit_export.exported_row(line, "line 2")
    assert audited.detail == world.query("SELECT detail FROM command_audit WHERE n = 6")[0]["detail"]
