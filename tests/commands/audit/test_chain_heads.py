import pytest

from restante.commands.audit import chain_heads
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.audit.audit_verify import verify_export
from restante.commands.audit.chain_heads import Head, Heads, read_heads, record_heads
from restante.database.database import Database
from tests.commands.audit.test_audit_verify import broken_row, export
from tests.commands.operator_fixture import MASTER_KEY, MinerFleet
from tests.conftest import ManualClock

NORTH, SOUTH = 1, 2
CHECKPOINT = "SELECT chain, part, n, hash, at, signature FROM audit_checkpoints WHERE chain = :chain"


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    return MinerFleet(database, clock)


def record(fleet: MinerFleet, known: Heads) -> Heads:
    return fleet.database.write_now(record_heads, fleet.trail, known)[0]


def set_back(fleet: MinerFleet, chain: int, checkpoint: dict[str, object]) -> None:
    """Delete the rows of a chain after a checkpoint, and put this checkpoint back: needs no key."""
    fleet.query("DELETE FROM command_audit WHERE chain = :chain AND n > :n RETURNING n", chain=chain, n=checkpoint["n"])
    fleet.query("DELETE FROM audit_checkpoints WHERE chain = :chain RETURNING chain", chain=chain)
    fleet.query(
        "INSERT INTO audit_checkpoints (chain, part, n, hash, at, signature) "
        "VALUES (:chain, :part, :n, :hash, :at, :signature) RETURNING chain",
        **checkpoint,
    )


def checkpoint_of(fleet: MinerFleet, chain: int) -> dict[str, object]:
    [row] = fleet.query(CHECKPOINT, chain=chain)
    return dict(row)


def heads_rows(fleet: MinerFleet) -> int:
    return len(fleet.query("SELECT n FROM command_audit WHERE chain = 0 AND event = 'audit.heads'"))


def test_changed_heads_are_recorded_once(fleet: MinerFleet) -> None:
    known = record(fleet, {})
    assert known == fleet.database.read_now(read_heads, fleet.trail)
    assert sorted(known) == [NORTH, SOUTH]
    assert record(fleet, known) == known
    assert heads_rows(fleet) == 1
    fleet.create()
    changed = record(fleet, known)
    assert (changed[SOUTH], changed[NORTH].n) == (known[SOUTH], known[NORTH].n + 1)
    [_, row] = fleet.query("SELECT detail FROM command_audit WHERE event = 'audit.heads' ORDER BY n")
    head = changed[NORTH]
    assert row["detail"] == f'{{"heads":[[{NORTH},{head.n},"{head.hash}"]]}}'
    assert fleet.verdict().intact


def test_heads_that_another_process_recorded_recently_are_not_recorded_again(
    fleet: MinerFleet, clock: ManualClock
) -> None:
    _, own_row = fleet.database.write_now(record_heads, fleet.trail, {}, 5000)
    for row, expected in ((None, 1), (own_row, 2)):
        fleet.database.write_now(record_heads, fleet.trail, {}, 5000, row)
        assert heads_rows(fleet) == expected
    clock.advance(6)
    fleet.database.write_now(record_heads, fleet.trail, {}, 5000, None)
    assert heads_rows(fleet) == 3


def test_trail_of_an_older_version_is_intact_and_gets_heads_from_then_on(fleet: MinerFleet) -> None:
    assert fleet.verdict().intact
    lines = export(fleet)
    record(fleet, {})
    assert fleet.verdict().intact
    assert verify_export(lines, fleet.trail.mac).intact
    assert verify_export(export(fleet), fleet.trail.mac).intact
    assert verify_export(export(fleet, NORTH), fleet.trail.mac).intact


def test_chain_set_back_behind_a_recorded_head_is_found(fleet: MinerFleet) -> None:
    older = checkpoint_of(fleet, NORTH)
    fleet.create()
    known = record(fleet, {})
    set_back(fleet, NORTH, older)
    assert broken_row(fleet) == (NORTH, known[NORTH].n)
    verdict = verify_export(export(fleet), fleet.trail.mac)
    assert verdict.broken is not None
    assert (verdict.broken.chain, verdict.broken.n) == (NORTH, known[NORTH].n)


def test_chain_set_back_and_continued_by_a_new_process_is_found(fleet: MinerFleet) -> None:
    older = checkpoint_of(fleet, NORTH)
    fleet.create()
    known = record(fleet, {})
    set_back(fleet, NORTH, older)
    fleet.trail = AuditTrail(MASTER_KEY.derive_key("audit"))
    fleet.create(dedupe_key="another")
    fleet.create(dedupe_key="one more")
    record(fleet, {})
    assert broken_row(fleet) == (NORTH, known[NORTH].n)
    verdict = verify_export(export(fleet), fleet.trail.mac)
    assert verdict.broken is not None
    assert (verdict.broken.chain, verdict.broken.n) == (NORTH, known[NORTH].n)


def test_recorder_that_remembers_a_head_records_that_it_is_gone(fleet: MinerFleet) -> None:
    older = checkpoint_of(fleet, NORTH)
    fleet.create()
    known = record(fleet, {})
    set_back(fleet, NORTH, older)
    record(fleet, known)
    [row] = fleet.query("SELECT detail FROM command_audit WHERE event = 'audit.set_back'")
    assert row["detail"] == f'{{"chain":{NORTH},"n":{known[NORTH].n}}}'
    assert broken_row(fleet) == (NORTH, known[NORTH].n)


def test_checkpoint_below_the_remembered_one_is_not_continued(fleet: MinerFleet) -> None:
    older = checkpoint_of(fleet, NORTH)
    fleet.create()
    fleet.trail.refuse_below({NORTH: int(str(older["n"])) + 1})
    set_back(fleet, NORTH, older)
    fleet.create(dedupe_key="another")
    verdict = fleet.verdict()
    assert verdict.broken is not None
    assert verdict.broken.reason.startswith("the chain was started again")


def test_checkpoint_that_is_not_authentic_is_not_recorded(fleet: MinerFleet) -> None:
    fleet.query("UPDATE audit_checkpoints SET n = n + 1 WHERE chain = 1 RETURNING n")
    assert list(fleet.database.read_now(read_heads, fleet.trail)) == [SOUTH]


def test_missing_heads_are_those_without_their_row(fleet: MinerFleet) -> None:
    heads = fleet.database.read_now(read_heads, fleet.trail)
    wrong = (NORTH, Head(heads[NORTH].n, "0" * 32))
    gone = (SOUTH, Head(heads[SOUTH].n + 1, heads[SOUTH].hash))
    given = [(NORTH, heads[NORTH]), wrong, gone]
    assert fleet.database.read_now(chain_heads.missing_heads, given) == [wrong, gone]
