"""Filtered lists answer from indexes on both engines: no whole table is read, and no page is sorted."""

import pytest

from restante.commands.lifecycle import listing as commands
from restante.commands.lifecycle.listing import CommandFilter
from restante.commands.sites import collectors, miners
from restante.commands.sites.collectors import CollectorFilter
from restante.commands.sites.miners import MinerFilter
from restante.commands.telemetry import safety_events
from restante.commands.telemetry.safety_events import SafetyFilter
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import FilteredList
from restante.database.queries import Query
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import RowFilter
from restante.events.clients import clients
from restante.events.clients.clients import ClientFilter
from restante.events.publishing import listing as events
from restante.events.publishing.listing import EventFilter
from restante.identity.grants import ALL_IDS, AllowedIds
from tests.events import inbox_fixture

SITES = AllowedIds(frozenset([1, 2]))


def lists_of(conn: Connection, client_id: str) -> dict[str, FilteredList]:
    return {
        "commands": commands.filtered(CommandFilter(status="failed", since_ms=1), SITES),
        "commands of a site": commands.filtered(CommandFilter(site_id=1, command_type="SET_FAN"), ALL_IDS),
        "commands of a miner": commands.filtered(CommandFilter(miner_id=1, site_id=1), ALL_IDS),
        "collectors": collectors.filtered(CollectorFilter(status="active", name="a"), SITES),
        "collectors of a site": collectors.filtered(CollectorFilter(1, seen_before_ms=1), ALL_IDS),
        "miners": miners.filtered(MinerFilter(name="a", status="active"), SITES),
        "miners of a site": miners.filtered(MinerFilter(1, name="a"), ALL_IDS),
        "miners of a zone": miners.filtered(MinerFilter(1, 1), ALL_IDS),
        "safety events": safety_events.filtered(SafetyFilter(action="FAN_FAILURE"), SITES),
        "safety events of a site": safety_events.filtered(SafetyFilter(1, since_ms=1), ALL_IDS),
        "clients": clients.filtered(conn, ClientFilter(status="active", scope="eventpolling"), ALL_IDS),
        "events": events.filtered(conn, EventFilter(status="errored", since_ms=1), ALL_IDS),
        "events of a client": events.filtered(conn, EventFilter(client_id, txn="t"), ALL_IDS),
        "errored events of a client": events.filtered(conn, EventFilter(client_id, "errored"), ALL_IDS),
        "outbox rows": outbox.filtered(RowFilter(device_id=1, since_ms=1)),
        "pending outbox rows": outbox.filtered(RowFilter("PENDING", event_kind="x")),
        "failed outbox rows": outbox.filtered(RowFilter("FAILED")),
    }


def plan(conn: Connection, engine_name: str, query: Query, parameters: dict[str, object]) -> list[str]:
    if engine_name == "sqlite":
        explained = Query("plan", "EXPLAIN QUERY PLAN " + query.text)
        return [row["detail"] for row in conn.all(explained, **parameters)]
    explained = Query("plan", "EXPLAIN (COSTS OFF) " + query.text)
    return [row["QUERY PLAN"].strip() for row in conn.all(explained, **parameters)]


@pytest.fixture
def client_id(database: Database) -> str:
    return database.write_now(inbox_fixture.add_client).client_id


def is_sorted(steps: list[str]) -> bool:
    return any("TEMP B-TREE" in step or step.startswith(("Sort", "->  Sort")) for step in steps)


def test_pages_and_their_ends_are_read_from_indexes(database: Database, client_id: str, engine_name: str) -> None:
    def explain(conn: Connection) -> None:
        for name, wanted in lists_of(conn, client_id).items():
            of_index = {key: value for each in wanted.indexed for key, value in each.parameters.items()}
            of_rest = {key: value for each in wanted.rest for key, value in each.parameters.items()}
            of_all = wanted.parameters | of_index | of_rest
            limit: dict[str, object] = {} if wanted.above is None else {"end": wanted.above}
            page: dict[str, object] = {"start": 10, **({"end": 1} if wanted.rest else limit), "limit": 100}
            for query, parameters in (
                (filtered_list.end_query(wanted), {**of_index, **limit, "start": 10, "scan": 2000}),
                (filtered_list.page_query(wanted, has_end=bool(wanted.rest)), {**of_all, **page}),
            ):
                steps = plan(conn, engine_name, query, parameters)
                text = f"{name}: {query.text}\n" + "\n".join(steps)
                # A whole table is read by SCAN in SQLite, by Seq Scan in PostgreSQL.
                assert not [step for step in steps if "SCAN" in step and "json_each" not in step], text
                assert not [step for step in steps if "Seq Scan" in step], text
                # Between two ends there are at most 2,000 rows, which may be sorted.
                assert "end" in parameters or not is_sorted(steps), text

    database.read_now(explain)
