"""Every kind of tampering with the trail must be detected, and the first broken row named."""

from collections.abc import Iterator

import pytest

from restante.commands.audit import audit_export, audit_verify
from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.audit.audit_verify import BrokenRow, LiveVerification, anchored_checkpoints, verify_export
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash
from restante.database.database import Database
from tests.commands.operator_fixture import MASTER_KEY, MinerFleet
from tests.conftest import ManualClock

NORTH, SOUTH = 1, 2


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    """Two chains with about ten rows each, and chain 0."""
    fleet = MinerFleet(database, clock)
    for n in range(6):
        fleet.create(dedupe_key=f"north {n}")
        fleet.create(site_id=fleet.other_site, miner_id=fleet.other_site_miner)
        clock.advance(1)
    return fleet


def broken_row(fleet: MinerFleet) -> tuple[int, int]:
    """Verify the live table, which must be broken; return chain and number of the broken row."""
    verdict = fleet.verdict()
    assert not verdict.intact
    assert verdict.broken is not None
    assert f"row {verdict.broken.n} of chain {verdict.broken.chain}" in verdict.sentence
    return verdict.broken.chain, verdict.broken.n


def export(fleet: MinerFleet, site_id: int | None = None) -> list[bytes]:
    header = fleet.database.read_now(audit_export.build_header, fleet.trail.mac, site_id)
    lines = [audit_export.encode_line(header)]
    for chain, after, until in audit_export.row_ranges(header):
        rows = fleet.database.read_now(audit_export.read_rows, chain, after, until)
        lines += [audit_export.encode_line(row) for row in rows]
    return lines


def broken_export_row(fleet: MinerFleet, lines: list[bytes]) -> tuple[int, int]:
    verdict = verify_export(lines, fleet.trail.mac)
    assert verdict.broken is not None
    assert not verdict.intact
    return verdict.broken.chain, verdict.broken.n


def test_unchanged_trail_is_intact(fleet: MinerFleet) -> None:
    verdict = fleet.verdict()
    assert (verdict.intact, verdict.chains, verdict.broken) == (True, 3, None)
    assert verdict.rows == fleet.count("command_audit")
    assert "unbroken" in verdict.sentence


def test_empty_trail_is_intact(database: Database) -> None:
    verification = LiveVerification(KeyedHash(b"k" * 32))
    assert not database.read_now(verification.step)
    assert (verification.verdict.intact, verification.verdict.rows) == (True, 0)


def test_verification_in_small_steps_finds_the_broken_row(fleet: MinerFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_verify, "STEP_ROWS", 3)
    assert fleet.verdict().intact
    fleet.query("UPDATE command_audit SET actor = 'mallory' WHERE chain = 1 AND n = 7")
    assert broken_row(fleet) == (NORTH, 7)


def test_rows_written_during_verification_do_not_break_it(fleet: MinerFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_verify, "STEP_ROWS", 3)
    verification = LiveVerification(fleet.trail.mac)
    new_chain = 77
    while fleet.database.read_now(verification.step):
        for chain in (NORTH, new_chain):
            entry = AuditEntry(chain, "x", "e", None, None, None, {})
            fleet.database.write_now(fleet.trail.record, entry)
        new_chain += 1
        if new_chain > 90:
            break
    while fleet.database.read_now(verification.step):
        pass
    assert verification.verdict.intact


@pytest.mark.parametrize(
    "column",
    [
        *("at = at + 1", "actor = 'mallory'", "event = 'x'", "command_id = 'cmd_x'"),
        *(
            "from_state = 'failed'",
            "to_state = 'succeeded'",
            "detail = '{}'",
            "hash = x'0000000000000000000000000000000000000000000000000000000000000000'",
        ),
    ],
)
def test_changed_row_is_detected(fleet: MinerFleet, column: str) -> None:
    fleet.query(f"UPDATE command_audit SET {column} WHERE chain = 1 AND n = 5")
    assert broken_row(fleet) == (NORTH, 5)


def test_deleted_row_is_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n = 5")
    assert broken_row(fleet) == (NORTH, 5)


def test_deleted_row_with_later_rows_renumbered_is_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n = 5")
    fleet.query("UPDATE command_audit SET n = -n WHERE chain = 1 AND n > 5")
    fleet.query("UPDATE command_audit SET n = -n - 1 WHERE chain = 1 AND n < 0")
    assert broken_row(fleet) == (NORTH, 5)


def test_inserted_row_is_detected(fleet: MinerFleet) -> None:
    fleet.query(
        "INSERT INTO command_audit (chain, n, at, actor, event, detail, hash) "
        "SELECT chain, n + 1, at, actor, event, detail, hash FROM command_audit WHERE chain = 1 ORDER BY n DESC LIMIT 1"
    )
    assert broken_row(fleet) == (NORTH, 12)


def test_exchanged_rows_are_detected(fleet: MinerFleet) -> None:
    for before, after in ((5, -1), (6, 5), (-1, 6)):
        fleet.query(f"UPDATE command_audit SET n = {after} WHERE chain = 1 AND n = {before}")
    assert broken_row(fleet) == (NORTH, 5)


def test_row_moved_from_another_chain_is_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n = 5")
    fleet.query("UPDATE command_audit SET chain = 1 WHERE chain = 2 AND n = 5")
    assert broken_row(fleet) == (NORTH, 5)


def test_deleted_newest_rows_are_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    assert broken_row(fleet) == (NORTH, 10)


def test_deleted_newest_rows_with_a_changed_checkpoint_are_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    fleet.query(
        "UPDATE audit_checkpoints SET n = 9, hash = (SELECT hash FROM command_audit WHERE chain = 1 AND n = 9) "
        "WHERE chain = 1"
    )
    assert broken_row(fleet) == (NORTH, 9)


def test_deleted_newest_rows_and_checkpoint_are_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    fleet.query("DELETE FROM audit_checkpoints WHERE chain = 1")
    assert broken_row(fleet) == (NORTH, 9)


@pytest.mark.parametrize(
    "tampered", ["DELETE FROM audit_checkpoints", "UPDATE audit_checkpoints SET signature = x'00'"]
)
def test_new_rows_do_not_repair_a_broken_trail(fleet: MinerFleet, tampered: str) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    fleet.query(f"{tampered} WHERE chain = 1")
    for trail in (fleet.trail, AuditTrail(MASTER_KEY.derive_key("audit"))):
        # Neither a process that has cached the end of the chain nor one that has not.
        fleet.trail = trail
        fleet.create()
        assert not fleet.verdict().intact


def test_deleted_chain_is_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 2")
    assert broken_row(fleet) == (SOUTH, 1)
    fleet.query("DELETE FROM audit_checkpoints WHERE chain = 2")
    assert broken_row(fleet) == (SOUTH, 1)
    fleet.create(site_id=fleet.other_site, miner_id=fleet.other_site_miner)
    assert broken_row(fleet) == (SOUTH, 1)


def test_chain_deleted_with_its_site_is_detected(fleet: MinerFleet) -> None:
    for table, column in (("command_audit", "chain"), ("audit_checkpoints", "chain"), ("miner_commands", "site_id")):
        fleet.query(f"DELETE FROM {table} WHERE {column} = 2")
    for table, column in (("edge_miners", "site_id"), ("edge_zones", "site_id"), ("edge_sites", "id")):
        fleet.query(f"DELETE FROM {table} WHERE {column} = 2")
    assert broken_row(fleet) == (SOUTH, 1)


def test_deleted_root_chain_is_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit WHERE chain = 0")
    fleet.query("DELETE FROM audit_checkpoints WHERE chain = 0")
    assert broken_row(fleet) == (NORTH, 1)


def test_deleted_trail_is_detected(fleet: MinerFleet) -> None:
    fleet.query("DELETE FROM command_audit")
    fleet.query("DELETE FROM audit_checkpoints")
    assert broken_row(fleet) == (NORTH, 1)


def test_chain_that_was_never_opened_is_detected(fleet: MinerFleet) -> None:
    fleet.query(
        "INSERT INTO command_audit (chain, n, at, actor, event, detail, hash) "
        "VALUES (99, 1, 0, 'mallory', 'e', '{}', x'00')"
    )
    assert broken_row(fleet) == (99, 1)


def test_trail_does_not_verify_with_another_key(fleet: MinerFleet) -> None:
    verdict = fleet.verdict(LiveVerification(KeyedHash(b"x" * 32)))
    assert verdict.broken == BrokenRow(0, 1, "the row is not what was written, or does not follow the one before it")


def test_trail_reset_to_an_older_state_is_detected_by_a_later_export(fleet: MinerFleet) -> None:
    """The table is reset to an earlier, valid state: only an export that is stored elsewhere shows it."""
    older = fleet.query("SELECT n, hash, at, signature FROM audit_checkpoints WHERE chain = 1")[0]
    fleet.create()
    anchors = anchored_checkpoints(export(fleet), fleet.trail.mac)
    assert fleet.verdict(LiveVerification(fleet.trail.mac, anchors)).intact
    fleet.query("DELETE FROM command_audit WHERE chain = 1 AND n > :n", n=older["n"])
    fleet.query(
        "UPDATE audit_checkpoints SET n = :n, hash = :hash, at = :at, signature = :signature WHERE chain = 1",
        **{name: older[name] for name in ("n", "hash", "at", "signature")},
    )
    assert fleet.verdict().intact
    verdict = fleet.verdict(LiveVerification(fleet.trail.mac, anchors))
    assert verdict.broken is not None
    assert (verdict.broken.chain, verdict.broken.n) == (NORTH, older["n"] + 1)


def test_export_is_verified_without_the_database(fleet: MinerFleet) -> None:
    verdict = verify_export(export(fleet), fleet.trail.mac)
    assert (verdict.intact, verdict.chains, verdict.rows) == (True, 3, fleet.count("command_audit"))
    one = verify_export(export(fleet, NORTH), fleet.trail.mac)
    assert (one.intact, one.chains) == (True, 1)


def line_numbers(lines: list[bytes], start: bytes) -> Iterator[int]:
    return (place for place, line in enumerate(lines) if start in line)


def test_changed_export_is_detected(fleet: MinerFleet) -> None:
    lines = export(fleet)
    fifth = next(place for place in line_numbers(lines, b'"chain":1,') if b'"n":5,' in lines[place])
    without = lines[:fifth] + lines[fifth + 1 :]
    changed = [*lines[:fifth], lines[fifth].replace(b'"tests"', b'"mallory"').replace(b'"maker"', b'"mallory"')]
    assert broken_export_row(fleet, without) == (NORTH, 5)
    assert broken_export_row(fleet, [*changed, *lines[fifth + 1 :]]) == (NORTH, 5)
    assert broken_export_row(fleet, [*lines[: fifth + 1], lines[fifth], *lines[fifth + 1 :]]) == (NORTH, 6)
    assert broken_export_row(fleet, lines[:-1]) == (SOUTH, 8)
    of_south = set(line_numbers(lines, b'"chain":2,')) - {0}
    assert broken_export_row(fleet, [line for n, line in enumerate(lines) if n not in of_south]) == (SOUTH, 1)
    of_north = set(line_numbers(lines, b'"chain":1,')) - {0}
    assert broken_export_row(fleet, [line for n, line in enumerate(lines) if n not in of_north]) == (NORTH, 1)
    assert broken_export_row(fleet, lines[:1]) == (0, 1)
    assert broken_export_row(fleet, [*lines, lines[1]]) == (0, 1)


def test_changed_first_line_of_an_export_is_detected(fleet: MinerFleet) -> None:
    lines = export(fleet, NORTH)
    for old, new in ((b'"chain":1', b'"chain":2'), (b'"n":11', b'"n":10'), (b'"signature":"', b'"signature":"0')):
        head = lines[0].replace(old, new)
        assert head != lines[0]
        assert broken_export_row(fleet, [head, *lines[1:]]) == (0, 0)
    with pytest.raises(BadInput):
        anchored_checkpoints([lines[0].replace(b'"n":11', b'"n":10')], fleet.trail.mac)


@pytest.mark.parametrize("lines", [[], [b"{}"], [b"hello"], [b'{"restante_audit_export":2,"at":0,"checkpoints":[]}']])
def test_input_that_is_not_an_export_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(BadInput):
        verify_export(lines, KeyedHash(b"k" * 32))


def test_line_that_is_not_a_row_is_refused(fleet: MinerFleet) -> None:
    lines = export(fleet)
    for line in (b"", b"{}", lines[1].replace(b'"hash":"', b'"hash":"x')):
        with pytest.raises(BadInput, match="line 2"):
            verify_export([lines[0], line], fleet.trail.mac)
