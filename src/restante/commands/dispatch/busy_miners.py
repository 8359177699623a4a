"""Busy miners: at most one live lease per miner, because collectors drop further commands for a busy miner.

    ready ──a claim finds its miner busy──▶ held ──the lease of the miner ends──▶ ready

A held command is not ready, so claims do not read it again and again: each lease of a miner holds and releases at most
one command of each type. Without this state, a claim would step over all commands of busy miners to find the others.
Commands for many miners have no `miner_id`: they neither wait for a miner nor keep one busy.

Invariant: while a command is held, its miner has a leased command, or a ready command of the same type that comes
first. So whenever a command is taken from its lease owner, or a ready one ends, `release_miners` is called. A held
command is also checked again after CHECK_SECONDS: this repairs changes that were made by hand, and the setting's end.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from restante.commands.dispatch.ready_commands import ReadyCommand
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

CHECK_SECONDS = 600

_encode = msgspec.json.Encoder().encode


def commands_to_hold(
    queues: Iterable[Sequence[ReadyCommand]], can_be_leased: Callable[[ReadyCommand], bool]
) -> list[ReadyCommand]:
    """The ready commands that must wait for another command of their miner: a leased one, or an earlier one of the same
    type.

    Those that can not be leased for another reason stay ready: commands of a full rate window are counted as such.
    """
    first: dict[tuple[int, str], int] = {}
    to_hold: dict[int, ReadyCommand] = {}
    for rows in queues:
        for row in rows:
            # All commands of a miner are in one zone, so every queue that has one of them has the first one, too.
            if row.miner_id is not None:
                is_first = first.setdefault((row.miner_id, row.command_type), row.id) == row.id
                if (row.is_miner_busy or not is_first) and can_be_leased(row):
                    to_hold[row.id] = row
    return list(to_hold.values())


def hold(conn: Connection, commands: Iterable[ReadyCommand]) -> int:
    """Hold the commands. Return when they are checked again at the latest."""
    check_at = conn.now_ms + CHECK_SECONDS * 1000
    conn.run_rows(SQL.hold, [(check_at, row.id) for row in commands])
    return check_at


def release_miners(conn: Connection, miner_ids: Iterable[int | None]) -> bool:
    """Make the first held command of each type ready, for each of these miners. Return whether there was any.

    The caller holds the lock of the miners' site.
    """
    miners = {miner_id for miner_id in miner_ids if miner_id is not None}
    if not miners:
        return False
    with_held = conn.values(SQL.miners_with_held, miners=_encode(sorted(miners)).decode())
    conn.run_rows(SQL.release, with_held)
    return bool(with_held)
