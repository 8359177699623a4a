import json

import pytest

from restante.commands.audit import audit_export
from restante.commands.audit.audit_export import ExportHeader
from restante.core.keyed_hash import KeyedHash
from tests.commands.operator_fixture import MinerFleet
from tests.conftest import START_MS


def test_first_line_has_the_checkpoint_of_each_chain(fleet: MinerFleet) -> None:
    header = fleet.database.read_now(audit_export.build_header, fleet.trail.mac, None)
    assert [(each.chain, each.n) for each in header.checkpoints] == [(0, 2), (1, 5), (2, 2)]
    assert header.at == START_MS
    assert ExportHeader.read(audit_export.encode_line(header)) == header
    assert header.is_authentic(fleet.trail.mac)
    assert not header.is_authentic(KeyedHash(b"x" * 32))


def test_export_of_one_site_has_one_chain(fleet: MinerFleet) -> None:
    header = fleet.database.read_now(audit_export.build_header, fleet.trail.mac, 2)
    assert [each.chain for each in header.checkpoints] == [2]
    assert fleet.database.read_now(audit_export.build_header, fleet.trail.mac, 99).checkpoints == []


def test_rows_are_read_in_batches(fleet: MinerFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_export, "BATCH_ROWS", 2)
    header = fleet.database.read_now(audit_export.build_header, fleet.trail.mac, 1)
    ranges = list(audit_export.row_ranges(header))
    assert ranges == [(1, 0, 5), (1, 2, 5), (1, 4, 5)]
    numbers = [[row.n for row in fleet.database.read_now(audit_export.read_rows, *each)] for each in ranges]
    assert numbers == [[1, 2], [3, 4], [5]]


def test_exported_line_keeps_the_detail_as_it_was_hashed(fleet: MinerFleet) -> None:
    command = fleet.create()
    (row,) = fleet.database.read_now(audit_export.read_rows, fleet.site_id, 5, 6)
    line = audit_export.encode_line(row)
    assert json.loads(line)["command_id"] == command.command_id
    assert json.loads(line)["detail"]["command_type"] == "HASHING_ENABLE"
    row_as_hashed, _hash = audit_export.parse_row(line, "line 2")
    assert row_as_hashed.detail == fleet.query("SELECT detail FROM command_audit WHERE n = 6")[0]["detail"]
