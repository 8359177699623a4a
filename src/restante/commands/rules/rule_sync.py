"""Bring this node's rule states up to date with the telemetry that other nodes have received.

A run (an unbroken series of samples for which a condition holds) is written to the database when it begins and when it
ends, but not with every record that extends it. Its newest sample is in the memory of the node that received it and,
like every record, in the miner's stored telemetry. If several nodes receive a site's telemetry, each node extends its
runs from the stored telemetry before it evaluates them.

Invariant: only records that contain the rule's metric extend a run. It is not necessary to check that such a record
crossed the threshold: a record that did not has ended the run, and the end is in the database.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from restante.commands.rules.rule_state import MinerRuleState
from restante.commands.telemetry import telemetry
from restante.core.commands.condition_run import ConditionRun
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

_fields = msgspec.json.Decoder(dict[str, Any])


class RuleSync:
    def __init__(self, history_records: int) -> None:
        self._history_records = history_records

    def catch_up(self, conn: Connection, states: Iterable[MinerRuleState]) -> None:
        """Extend the runs to the newest record that decides them, whichever node received it."""
        running = [state for state in states if state.run is not None and state.rule.threshold is not None]
        if not running:
            return
        miner_ids = msgspec.json.encode(sorted({state.miner_id for state in running})).decode()
        newest = {row["miner_id"]: row for row in conn.all(SQL.newest, miner_ids=miner_ids)}
        for state in running:
            if state.miner_id in newest:
                self._extend(conn, state, newest[state.miner_id])

    def _extend(self, conn: Connection, state: MinerRuleState, newest: Row) -> None:
        run = state.run
        if run is None or newest["ts"] <= run.last:
            return
        ts = self._last_decided_at(conn, state, newest)
        if ts > run.last:
            # Its receive time is not stored. Assume that it came as much before the newest record as its own time says.
            state.run = ConditionRun(run.since, ts, newest["received_at"] - (newest["ts"] - ts))

    def _last_decided_at(self, conn: Connection, state: MinerRuleState, newest: Row) -> int:
        """The time of the newest record that decides the rule's condition; 0 if none is stored."""
        if state.rule.is_decided_by(_fields.decode(newest["record"])):
            return int(newest["ts"])
        past = telemetry.past_records(conn, state.miner_id, self._history_records, self._history_records)
        return next((ts for ts, record in past if state.rule.is_decided_by(_fields.decode(record))), 0)
