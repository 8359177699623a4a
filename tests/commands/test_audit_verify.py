"""The trail tampered with in every way there is: each must be noticed, and the first bad row named."""

from collections.abc import Iterator

import pytest

from restante.commands import audit_export, audit_verify
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.audit_verify import Broken, LiveVerification, open_export, verify_export
from restante.core.errors import BadInput
from restante.core.keyed_hash import KeyedHash
from restante.database.database import Database
from tests.commands.operators import MASTER_KEY, World
from tests.conftest import ManualClock

NORTH, SOUTH = 1, 2


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    """Two chains of a dozen rows, and chain 0 that opened them."""
    world = World(database, clock)
    for n in range(6):
        world.create(dedupe_key=f"north {n}")
        world.create(site_id=world.other_site, miner_id=world.foreign_miner)
        clock.advance(1)
    return world


def broken(world: World) -> tuple[int, int]:
    """Which row the verdict on the live table names."""
    verdict = world.verdict()
    assert not verdict.intact
    assert verdict.broken is not None
    assert f"row {verdict.broken.n} of chain {verdict.broken.chain}" in verdict.sentence
    return verdict.broken.chain, verdict.broken.n


def export(world: World, site_id: int | None = None) -> list[bytes]:
    header = world.database.read_now(audit_export.header, world.trail.mac, site_id)
    lines = [audit_export.as_line(header)]
    for chain, after, until in audit_export.batches(header):
        rows = world.database.read_now(audit_export.rows_between, chain, after, until)
        lines += [audit_export.as_line(row) for row in rows]
    return lines


def broken_file(world: World, lines: list[bytes]) -> tuple[int, int]:
    verdict = verify_export(lines, world.trail.mac)
    assert verdict.broken is not None
    assert not verdict.intact
    return verdict.broken.chain, verdict.broken.n


def test_an_untouched_trail_is_intact(world: World) -> None:
    verdict = world.verdict()
    assert (verdict.intact, verdict.chains, verdict.broken) == (True, 3, None)
    assert verdict.rows == world.count("command_audit")
    assert "unbroken" in verdict.sentence


def test_nothing_recorded_is_intact(database: Database) -> None:
    verification = LiveVerification(KeyedHash(b"k" * 32))
    assert not database.read_now(verification.step)
    assert (verification.verdict.intact, verification.verdict.rows) == (True, 0)


def test_it_goes_in_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_verify, "STEP_ROWS", 3)
    assert world.verdict().intact
    world.query("UPDATE command_audit SET actor = 'mallory' WHERE chain = 1 AND n = 7")
    assert broken(world) == (NORTH, 7)


def test_what_is_written_meanwhile_does_not_disturb(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_verify, "STEP_ROWS", 3)
    verification = LiveVerification(world.trail.mac)
    new_chain = 77
    while world.database.read_now(verification.step):
        for chain in (NORTH, new_chain):
            entry = AuditEntry(chain, "x", "e", None, None, None, {})
            world.database.write_now(world.trail.record, entry)
        new_chain += 1
        if new_chain > 90:
            break
    while world.database.read_now(verification.step):
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
def test_a_changed_row(world: World, column: str) -> None:
    world.query(f"UPDATE command_audit SET {column} WHERE chain = 1 AND n = 5")
    assert broken(world) == (NORTH, 5)


def test_a_deleted_row(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n = 5")
    assert broken(world) == (NORTH, 5)


def test_a_deleted_row_with_the_later_ones_moved_up(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n = 5")
    world.query("UPDATE command_audit SET n = -n WHERE chain = 1 AND n > 5")
    world.query("UPDATE command_audit SET n = -n - 1 WHERE chain = 1 AND n < 0")
    assert broken(world) == (NORTH, 5)


def test_a_row_put_in(world: World) -> None:
    world.query(
        "INSERT INTO command_audit (chain, n, at, actor, event, detail, hash) "
        "SELECT chain, n + 1, at, actor, event, detail, hash FROM command_audit WHERE chain = 1 ORDER BY n DESC LIMIT 1"
    )
    assert broken(world) == (NORTH, 12)


def test_two_rows_exchanged(world: World) -> None:
    for before, after in ((5, -1), (6, 5), (-1, 6)):
        world.query(f"UPDATE command_audit SET n = {after} WHERE chain = 1 AND n = {before}")
    assert broken(world) == (NORTH, 5)


def test_a_row_of_another_chain(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n = 5")
    world.query("UPDATE command_audit SET chain = 1 WHERE chain = 2 AND n = 5")
    assert broken(world) == (NORTH, 5)


def test_the_newest_rows_deleted(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    assert broken(world) == (NORTH, 10)


def test_the_newest_rows_deleted_and_the_checkpoint_moved_back(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    world.query(
        "UPDATE audit_checkpoints SET n = 9, hash = (SELECT hash FROM command_audit WHERE chain = 1 AND n = 9) "
        "WHERE chain = 1"
    )
    assert broken(world) == (NORTH, 9)


def test_the_newest_rows_and_the_checkpoint_deleted(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    world.query("DELETE FROM audit_checkpoints WHERE chain = 1")
    assert broken(world) == (NORTH, 9)


@pytest.mark.parametrize(
    "tampered", ["DELETE FROM audit_checkpoints", "UPDATE audit_checkpoints SET signature = x'00'"]
)
def test_going_on_after_that_mends_nothing(world: World, tampered: str) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n > 9")
    world.query(f"{tampered} WHERE chain = 1")
    for trail in (world.trail, AuditTrail(MASTER_KEY.derived("audit"))):
        # Neither a process that remembers where the chain ended nor one that does not.
        world.trail = trail
        world.create()
        assert not world.verdict().intact


def test_a_whole_chain_deleted(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 2")
    assert broken(world) == (SOUTH, 1)
    world.query("DELETE FROM audit_checkpoints WHERE chain = 2")
    assert broken(world) == (SOUTH, 1)
    world.create(site_id=world.other_site, miner_id=world.foreign_miner)
    assert broken(world) == (SOUTH, 1)


def test_a_chain_deleted_with_its_site(world: World) -> None:
    for table, column in (("command_audit", "chain"), ("audit_checkpoints", "chain"), ("miner_commands", "site_id")):
        world.query(f"DELETE FROM {table} WHERE {column} = 2")
    for table, column in (("edge_miners", "site_id"), ("edge_zones", "site_id"), ("edge_sites", "id")):
        world.query(f"DELETE FROM {table} WHERE {column} = 2")
    assert broken(world) == (SOUTH, 1)


def test_the_root_chain_deleted(world: World) -> None:
    world.query("DELETE FROM command_audit WHERE chain = 0")
    world.query("DELETE FROM audit_checkpoints WHERE chain = 0")
    assert broken(world) == (NORTH, 1)


def test_everything_deleted(world: World) -> None:
    world.query("DELETE FROM command_audit")
    world.query("DELETE FROM audit_checkpoints")
    assert broken(world) == (NORTH, 1)


def test_a_chain_nobody_opened(world: World) -> None:
    world.query(
        "INSERT INTO command_audit (chain, n, at, actor, event, detail, hash) "
        "VALUES (99, 1, 0, 'mallory', 'e', '{}', x'00')"
    )
    assert broken(world) == (99, 1)


def test_another_key_breaks_everything(world: World) -> None:
    verdict = world.verdict(LiveVerification(KeyedHash(b"x" * 32)))
    assert verdict.broken == Broken(0, 1, "the row is not what was written, or does not follow the one before it")


def test_an_older_state_put_back_shows_against_an_export(world: World) -> None:
    """All of the table set back to an earlier, valid state: only what was carried elsewhere can tell."""
    older = world.query("SELECT n, hash, at, signature FROM audit_checkpoints WHERE chain = 1")[0]
    world.create()
    anchors = open_export(export(world), world.trail.mac)
    assert world.verdict(LiveVerification(world.trail.mac, anchors)).intact
    world.query("DELETE FROM command_audit WHERE chain = 1 AND n > :n", n=older["n"])
    world.query(
        "UPDATE audit_checkpoints SET n = :n, hash = :hash, at = :at, signature = :signature WHERE chain = 1",
        **{name: older[name] for name in ("n", "hash", "at", "signature")},
    )
    assert world.verdict().intact
    verdict = world.verdict(LiveVerification(world.trail.mac, anchors))
    assert verdict.broken is not None
    assert (verdict.broken.chain, verdict.broken.n) == (NORTH, older["n"] + 1)


def test_an_export_is_verified_without_the_database(world: World) -> None:
    verdict = verify_export(export(world), world.trail.mac)
    assert (verdict.intact, verdict.chains, verdict.rows) == (True, 3, world.count("command_audit"))
    one = verify_export(export(world, NORTH), world.trail.mac)
    assert (one.intact, one.chains) == (True, 1)


def places(lines: list[bytes], start: bytes) -> Iterator[int]:
    return (place for place, line in enumerate(lines) if start in line)


def test_an_export_tampered_with(world: World) -> None:
    lines = export(world)
    fifth = next(place for place in places(lines, b'"chain":1,') if b'"n":5,' in lines[place])
    without = lines[:fifth] + lines[fifth + 1 :]
    changed = [*lines[:fifth], lines[fifth].replace(b'"tests"', b'"mallory"').replace(b'"maker"', b'"mallory"')]
    assert broken_file(world, without) == (NORTH, 5)
    assert broken_file(world, [*changed, *lines[fifth + 1 :]]) == (NORTH, 5)
    assert broken_file(world, [*lines[: fifth + 1], lines[fifth], *lines[fifth + 1 :]]) == (NORTH, 6)
    assert broken_file(world, lines[:-1]) == (SOUTH, 8)
    of_south = set(places(lines, b'"chain":2,')) - {0}
    assert broken_file(world, [line for n, line in enumerate(lines) if n not in of_south]) == (SOUTH, 1)
    of_north = set(places(lines, b'"chain":1,')) - {0}
    assert broken_file(world, [line for n, line in enumerate(lines) if n not in of_north]) == (NORTH, 1)
    assert broken_file(world, lines[:1]) == (0, 1)
    assert broken_file(world, [*lines, lines[1]]) == (0, 1)


def test_an_exports_first_line_tampered_with(world: World) -> None:
    lines = export(world, NORTH)
    for old, new in ((b'"chain":1', b'"chain":2'), (b'"n":11', b'"n":10'), (b'"signature":"', b'"signature":"0')):
        head = lines[0].replace(old, new)
        assert head != lines[0]
        assert broken_file(world, [head, *lines[1:]]) == (0, 0)
    with pytest.raises(BadInput):
        open_export([lines[0].replace(b'"n":11', b'"n":10')], world.trail.mac)


@pytest.mark.parametrize("lines", [[], [b"{}"], [b"hello"], [b'{"restante_audit_export":2,"at":0,"checkpoints":[]}']])
def test_what_is_no_export_is_told_so(lines: list[bytes]) -> None:
    with pytest.raises(BadInput):
        verify_export(lines, KeyedHash(b"k" * 32))


def test_a_line_that_is_no_row_is_told_so(world: World) -> None:
    lines = export(world)
    for line in (b"", b"{}", lines[1].replace(b'"hash":"', b'"hash":"x')):
        with pytest.raises(BadInput, match="line 2"):
            verify_export([lines[0], line], world.trail.mac)
