import hmac
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from restante.commands.audit import PART_ROWS, AuditEntry, AuditTrail
from restante.commands.audit_verify import LiveVerification
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


def verified(database: Database, trail: AuditTrail) -> bool:
    verification = LiveVerification(trail.mac)
    while database.read_now(verification.step):
        pass
    return verification.verdict.intact


@pytest.fixture
def trail() -> AuditTrail:
    return AuditTrail(KEY)


def test_a_rows_hash_is_keyed_and_covers_the_row_before_it(database: Database, trail: AuditTrail) -> None:
    """Computed again by hand: the form is a promise to whoever verifies with a program of their own."""
    for event in ("command.create", "command.cancelled"):
        database.write_now(trail.record, entry(event=event))
    before = bytes(32)
    for row in rows(database, 5):
        fields = {name: row[name] for name in row.keys() if name not in ("id", "hash")}  # noqa: SIM118 — no dict
        message = before + msgspec.json.encode(fields, order="sorted")
        assert row["hash"] == hmac.digest(KEY, message, "sha256")
        before = row["hash"]


def test_what_is_kept(database: Database, trail: AuditTrail, clock: ManualClock) -> None:
    database.write_now(trail.record, entry())
    (row,) = rows(database, 5)
    kept = (row["n"], row["at"], row["actor"], row["event"], row["command_id"], row["from_state"], row["to_state"])
    assert kept == (1, START_MS, "ada", "command.cancelled", "cmd_1", "pending", "cancelled")
    assert row["detail"] == '{"a":"ü","b":1.5}'


def test_each_chain_counts_for_itself_and_chain_0_knows_of_it(database: Database, trail: AuditTrail) -> None:
    for chain in (5, 6, 5):
        database.write_now(trail.record, entry(chain))
    numbers = {chain: [row["n"] for row in rows(database, chain)] for chain in (0, 5, 6)}
    assert numbers == {0: [1, 2], 5: [1, 2], 6: [1]}
    opened = rows(database, 0)
    assert [(row["event"], row["detail"]) for row in opened] == [
        ("chain.opened", '{"chain":5}'),
        ("chain.opened", '{"chain":6}'),
    ]


def test_several_at_once_are_as_one_after_another(database: Database, trail: AuditTrail) -> None:
    events = [entry(event=f"e{n}") for n in range(3)]
    database.write_now(trail.record_all, events)
    for each in events:
        database.write_now(trail.record, replace(each, chain=6))
    five, six = rows(database, 5), rows(database, 6)
    assert [(row["n"], row["event"]) for row in five] == [(row["n"], row["event"]) for row in six]


def test_entries_of_several_chains_at_once_are_as_one_after_another(database: Database, trail: AuditTrail) -> None:
    """Also where chains are opened by it, and where it tells of something in the chain that they are opened in."""
    chains = [5, 6, 0, 5, 7, 0, 6]
    events = [entry(chain, f"e{n}") for n, chain in enumerate(chains)]
    database.write_now(trail.record_all, events[:4])
    database.write_now(trail.record_all, events[4:])
    told = {chain: [row["event"] for row in rows(database, chain)] for chain in (0, 5, 6, 7)}
    opened = "chain.opened"
    assert told == {0: [opened, opened, "e2", opened, "e5"], 5: ["e0", "e3"], 6: ["e1", "e6"], 7: ["e4"]}
    assert verified(database, trail)


def test_what_is_rolled_back_leaves_no_trace(database: Database, trail: AuditTrail) -> None:
    def fail(conn: Connection) -> None:
        trail.record(conn, entry())
        raise ValueError("on purpose")

    database.write_now(trail.record, entry())
    with pytest.raises(ValueError, match="on purpose"):
        database.write_now(fail)
    database.write_now(trail.record, entry())
    assert [row["n"] for row in rows(database, 5)] == [1, 2]


def test_another_process_may_write_between(database: Database, trail: AuditTrail) -> None:
    """What this process remembers of a chain's end is a guess that the database corrects."""
    other = AuditTrail(KEY)
    for each in (trail, other, other, trail, trail, other):
        database.write_now(each.record, entry())
    assert [row["n"] for row in rows(database, 5)] == [1, 2, 3, 4, 5, 6]
    assert verified(database, trail)


def test_a_chain_has_one_checkpoint_which_is_another_row_in_each_part(database: Database, trail: AuditTrail) -> None:
    """Also where one transaction goes past several parts."""
    at = Query("at", "SELECT chain, part, n FROM audit_checkpoints WHERE chain <> 0 ORDER BY chain")
    for count, expected in ((PART_ROWS - 1, (0, 63)), (1, (1, 64)), (5, (1, 69)), (3 * PART_ROWS, (4, 261))):
        database.write_now(trail.record_all, [entry(chain) for chain in (5, 6) for _ in range(count)])
        assert database.read_now(lambda conn: conn.values(at)) == [(5, *expected), (6, *expected)]
        assert verified(database, trail)
    other = AuditTrail(KEY)
    database.write_now(other.record, entry())
    assert verified(database, other)


@pytest.mark.parametrize("part", [0, 99])
def test_a_checkpoint_that_is_not_ours_is_not_gone_on_from(database: Database, trail: AuditTrail, part: int) -> None:
    """Wherever it stands: after it nothing of the chain is proven, and the next row says so."""
    database.write_now(trail.record_all, [entry() for _ in range(PART_ROWS)])
    forge = Query(
        "forge",
        "INSERT INTO audit_checkpoints (chain, part, n, hash, at, signature) VALUES (5, :part, 7, x'00', 1, x'00')",
    )
    database.write_now(lambda conn: conn.run(forge, part=part))
    assert verified(database, trail) is (part == 0)
    database.write_now(trail.record, entry())
    left = Query("left", "SELECT COUNT(*) AS count FROM audit_checkpoints WHERE chain = 5")
    row = database.read_now(lambda conn: conn.one(left))
    assert row is not None
    assert (row["count"], verified(database, trail)) == ((2, True) if part == 0 else (1, False))
