import hmac
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from restante.commands.audit.audit_trail import PART_ROWS, AuditEntry, AuditTrail
from restante.commands.audit.audit_verify import LiveVerification
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from tests.conftest import START_MS, ManualClock

KEY = b"k" * 32
_ROWS = Query("rows", "SELECT * FROM command_audit WHERE chain = :chain ORDER BY n")


def entry(chain: int = 5, event: str = "command.cancelled") -> AuditEntry:
    return AuditEntry(chain, "ada", event, "cmd_1", "pending", "cancelled", {"b": 1.5, "a": "ü"})


def rows(database: Database, chain: int) -> list[Any]:
    return list(database.read_now(lambda conn: conn.all(_ROWS, chain=chain)))


def is_intact(database: Database, trail: AuditTrail) -> bool:
    verification = LiveVerification(trail.mac)
    while database.read_now(verification.step):
        pass
    return verification.verdict.intact


@pytest.fixture
def trail() -> AuditTrail:
    return AuditTrail(KEY)


def test_hash_of_a_row_is_keyed_and_covers_the_previous_hash(database: Database, trail: AuditTrail) -> None:
    """The test computes the hash itself: the format is public, so that other programs can verify a trail."""
    for event in ("command.create", "command.cancelled"):
        database.write_now(trail.record, entry(event=event))
    before = bytes(32)
    for row in rows(database, 5):
        fields = {name: row[name] for name in row.keys() if name not in ("id", "hash")}  # noqa: SIM118 — no dict
        message = before + msgspec.json.encode(fields, order="sorted")
        assert row["hash"] == hmac.digest(KEY, message, "sha256")
        before = row["hash"]


def test_row_has_all_fields_of_the_entry(database: Database, trail: AuditTrail, clock: ManualClock) -> None:
    database.write_now(trail.record, entry())
    (row,) = rows(database, 5)
    kept = (row["n"], row["at"], row["actor"], row["event"], row["command_id"], row["from_state"], row["to_state"])
    assert kept == (1, START_MS, "ada", "command.cancelled", "cmd_1", "pending", "cancelled")
    assert row["detail"] == '{"a":"ü","b":1.5}'


def test_each_chain_has_its_own_numbers_and_is_recorded_in_chain_0(database: Database, trail: AuditTrail) -> None:
    for chain in (5, 6, 5):
        database.write_now(trail.record, entry(chain))
    numbers = {chain: [row["n"] for row in rows(database, chain)] for chain in (0, 5, 6)}
    assert numbers == {0: [1, 2], 5: [1, 2], 6: [1]}
    opened = rows(database, 0)
    assert [(row["event"], row["detail"]) for row in opened] == [
        ("chain.opened", '{"chain":5}'),
        ("chain.opened", '{"chain":6}'),
    ]


def test_several_entries_at_once_equal_one_after_another(database: Database, trail: AuditTrail) -> None:
    events = [entry(event=f"e{n}") for n in range(3)]
    database.write_now(trail.record_all, events)
    for each in events:
        database.write_now(trail.record, replace(each, chain=6))
    five, six = rows(database, 5), rows(database, 6)
    assert [(row["n"], row["event"]) for row in five] == [(row["n"], row["event"]) for row in six]


def test_entries_of_several_chains_at_once_equal_one_after_another(database: Database, trail: AuditTrail) -> None:
    """Also if the call opens chains, and records an entry in the root chain as well."""
    chains = [5, 6, 0, 5, 7, 0, 6]
    events = [entry(chain, f"e{n}") for n, chain in enumerate(chains)]
    database.write_now(trail.record_all, events[:4])
    database.write_now(trail.record_all, events[4:])
    events_by_chain = {chain: [row["event"] for row in rows(database, chain)] for chain in (0, 5, 6, 7)}
    opened = "chain.opened"
    assert events_by_chain == {0: [opened, opened, "e2", opened, "e5"], 5: ["e0", "e3"], 6: ["e1", "e6"], 7: ["e4"]}
    assert is_intact(database, trail)


def test_rolled_back_entry_leaves_no_row(database: Database, trail: AuditTrail) -> None:
    def fail(conn: Connection) -> None:
        trail.record(conn, entry())
        raise ValueError("on purpose")

    database.write_now(trail.record, entry())
    with pytest.raises(ValueError, match="on purpose"):
        database.write_now(fail)
    database.write_now(trail.record, entry())
    assert [row["n"] for row in rows(database, 5)] == [1, 2]


def test_two_processes_may_write_to_one_chain(database: Database, trail: AuditTrail) -> None:
    """The cached end of a chain may be outdated: the database decides."""
    other = AuditTrail(KEY)
    for each in (trail, other, other, trail, trail, other):
        database.write_now(each.record, entry())
    assert [row["n"] for row in rows(database, 5)] == [1, 2, 3, 4, 5, 6]
    assert is_intact(database, trail)


def test_chain_has_one_checkpoint_with_a_new_row_for_each_part(database: Database, trail: AuditTrail) -> None:
    """Also if one transaction crosses several parts."""
    at = Query("at", "SELECT chain, part, n FROM audit_checkpoints WHERE chain <> 0 ORDER BY chain")
    for count, expected in ((PART_ROWS - 1, (0, 63)), (1, (1, 64)), (5, (1, 69)), (3 * PART_ROWS, (4, 261))):
        database.write_now(trail.record_all, [entry(chain) for chain in (5, 6) for _ in range(count)])
        assert database.read_now(lambda conn: conn.values(at)) == [(5, *expected), (6, *expected)]
        assert is_intact(database, trail)
    other = AuditTrail(KEY)
    database.write_now(other.record, entry())
    assert is_intact(database, other)


@pytest.mark.parametrize("part", [0, 99])
def test_chain_is_not_continued_from_a_forged_checkpoint(database: Database, trail: AuditTrail, part: int) -> None:
    """A forged checkpoint in the newest part makes the chain unverifiable, and the next row does not hide that."""
    database.write_now(trail.record_all, [entry() for _ in range(PART_ROWS)])
    forge = Query(
        "forge",
        "INSERT INTO audit_checkpoints (chain, part, n, hash, at, signature) VALUES (5, :part, 7, x'00', 1, x'00')",
    )
    database.write_now(lambda conn: conn.run(forge, part=part))
    assert is_intact(database, trail) is (part == 0)
    database.write_now(trail.record, entry())
    left = Query("left", "SELECT COUNT(*) AS count FROM audit_checkpoints WHERE chain = 5")
    row = database.read_now(lambda conn: conn.one(left))
    assert row is not None
    assert (row["count"], is_intact(database, trail)) == ((2, True) if part == 0 else (1, False))
