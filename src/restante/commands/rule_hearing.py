"""What other nodes have heard of the stretches that this one keeps in memory.

A stretch is written down when it begins and when it ends, and not with every record that carries it on: its newest
sample is in the memory of the node that took it in, and, as every record, in the miner's telemetry. Where several nodes
take in a site's telemetry, each carries its stretches on from there before it judges anything by them.

Must always hold: only records that tell about the rule's metric carry a stretch on. That such a record was over the
threshold need not be looked at: one that was not has ended the stretch, and that is written down.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from restante.commands import telemetry
from restante.commands.rule_standing import Standing
from restante.core.holding import Holding
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

_fields = msgspec.json.Decoder(dict[str, Any])


class OthersHeard:
    def __init__(self, history_records: int) -> None:
        self._history_records = history_records

    def catch_up(self, conn: Connection, standings: Iterable[Standing]) -> None:
        """Carry the stretches on to the newest record that tells about them, whoever took it in."""
        held = [each for each in standings if each.holding is not None and each.rule.threshold is not None]
        if not held:
            return
        miner_ids = msgspec.json.encode(sorted({each.miner_id for each in held})).decode()
        newest = {row["miner_id"]: row for row in conn.all(SQL.newest, miner_ids=miner_ids)}
        for standing in held:
            if standing.miner_id in newest:
                self._carry_on(conn, standing, newest[standing.miner_id])

    def _carry_on(self, conn: Connection, standing: Standing, newest: Row) -> None:
        holding = standing.holding
        if holding is None or newest["ts"] <= holding.last:
            return
        ts = self._told_at(conn, standing, newest)
        if ts > holding.last:
            # How much earlier than the newest it was heard is not kept; by its own clock it is so much earlier.
            standing.holding = Holding(holding.since, ts, newest["received_at"] - (newest["ts"] - ts))

    def _told_at(self, conn: Connection, standing: Standing, newest: Row) -> int:
        """When the newest record was made that tells about the rule; 0 if none is kept."""
        if standing.rule.is_told_about_by(_fields.decode(newest["record"])):
            return int(newest["ts"])
        past = telemetry.past_records(conn, standing.miner_id, self._history_records, self._history_records)
        return next((ts for ts, record in past if standing.rule.is_told_about_by(_fields.decode(record))), 0)
