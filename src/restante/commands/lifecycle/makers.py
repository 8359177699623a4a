"""Makers: every identity behind a command. None of them may approve it, and their commands count together.

    a person                  the e-mail, and `person:<id>`
    an API key                `key:<name>`, `key:<id>`, and the person who made the key
    the Unix socket           `local:<system user>`
    a rule                    `rule:<id>`, and everybody who made or changed the rule

Rows are deleted some time after the command has ended (`delete_old`).
"""

from collections.abc import Iterable, Sequence

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# The longest window in which commands count together. Makers are kept for longer, until their command has ended.
WINDOW_SECONDS_MAX = 7 * 86_400
SWEEP_ROWS = 1000


def record(
    conn: Connection,
    command_id: str,
    makers: Iterable[str],
    command_type: str,
    miner_id: int | None,
    miner_count: int,
) -> None:
    at = conn.now_ms
    rows = [(command_id, maker, command_type, miner_id, miner_count, at) for maker in sorted(set(makers))]
    conn.run_rows(SQL.insert_maker, rows)


def count_miners(
    conn: Connection, makers: Iterable[str], command_type: str, window_seconds: int, except_miner: int | None
) -> int:
    """The miners of the maker's commands of this type in the window; the highest count, if there are several makers.

    A miner with several commands of its own counts once, and `except_miner` not at all.
    """
    counts = [
        conn.one(
            SQL.count_miners,
            maker=maker,
            command_type=command_type,
            since=conn.now_ms - window_seconds * 1000,
            except_miner=except_miner,
        )
        for maker in sorted(set(makers))
    ]
    return max((int(row["miners"]) for row in counts if row is not None), default=0)


def of_command(conn: Connection, command_id: str) -> set[str]:
    return {row["maker"] for row in conn.all(SQL.makers_of_command, command_id=command_id)}


def add_to_rule(conn: Connection, rule_id: int, makers: Iterable[str]) -> None:
    conn.run_rows(SQL.insert_rule_maker, [(rule_id, maker) for maker in sorted(set(makers))])


def of_rule(conn: Connection, rule_id: int) -> Sequence[str]:
    return [row["maker"] for row in conn.all(SQL.makers_of_rule, rule_id=rule_id)]


def delete_old(conn: Connection) -> int:
    """Delete some makers of commands that no longer count and do not wait for approval; returns how many."""
    return conn.run(SQL.delete_old, before=conn.now_ms - WINDOW_SECONDS_MAX * 1000, limit=SWEEP_ROWS)
