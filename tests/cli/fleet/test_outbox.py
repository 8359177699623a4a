from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from restante.cli.main import app
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.outbox import DatabaseKind, enqueue, schema
from tests.cli.conftest import AddDevice, Restante
from tests.delivery.external_databases import sqlite_application

FAIL = Query(
    "fail",
    "UPDATE device_update_outbox SET status = 'FAILED', attempts = 10, failure_reason = 'no such log' WHERE id = :id",
)


@pytest.fixture
def three_rows(restante: Restante, add_device: AddDevice) -> Restante:
    """Rows 1 and 2 for device 1, row 3 for device 2; 2 and 3 have failed."""
    for device in (add_device("first"), add_device("second")):
        for n in range(3 - device):
            restante.ok("signal", "send", str(device), f"test.{n}", "--ref", '{"n": 1}')
    with restante.database() as database:
        for row_id in (2, 3):
            database.write_now(_fail, row_id)
    return restante


def _fail(conn: Connection, row_id: int) -> None:
    conn.run(FAIL, id=row_id)


def ids(rows: list[dict[str, int]]) -> list[int]:
    return [row["id"] for row in rows]


def test_list_filters_by_status_and_device(three_rows: Restante) -> None:
    assert ids(three_rows.json("outbox", "list")) == [3, 2, 1]
    assert ids(three_rows.json("outbox", "list", "--status", "FAILED")) == [3, 2]
    assert ids(three_rows.json("outbox", "list", "--status", "failed", "--device", "2")) == [3]
    assert ids(three_rows.json("outbox", "list", "--limit", "1", "--after", "3")) == [2]
    assert "no such log" in three_rows.ok("outbox", "list")


def test_empty_list_is_reported(restante: Restante) -> None:
    assert restante.ok("outbox", "list") == "No rows.\n"
    assert restante.json("outbox", "list") == []


@pytest.mark.parametrize("wrong", [["--status", "LOST"], ["--limit", "0"], ["--limit", "1001"], ["--after", "-1"]])
def test_invalid_filter_is_wrong_usage(restante: Restante, wrong: list[str]) -> None:
    assert restante("outbox", "list", *wrong).exit_code == 2


def test_show_prints_row(three_rows: Restante) -> None:
    shown = three_rows.json("outbox", "show", "2")
    assert (shown["status"], shown["attempts"], shown["failure_reason"]) == ("FAILED", 10, "no such log")
    assert '"type":"test.1"' in three_rows.ok("outbox", "show", "2")
    assert three_rows.error_line("outbox", "show", "9") == "there is no outbox row 9"


def test_retry_resets_named_rows(three_rows: Restante) -> None:
    assert three_rows.json("outbox", "retry", "2") == {"retried": 1}
    shown = three_rows.json("outbox", "show", "2")
    assert (shown["status"], shown["attempts"], shown["failure_reason"]) == ("PENDING", 0, None)
    assert three_rows.json("outbox", "show", "3")["status"] == "FAILED"


def test_retry_all_resets_every_failed_row(three_rows: Restante) -> None:
    assert three_rows.ok("outbox", "retry", "--all") == "2 rows will be tried again.\n"
    assert three_rows.json("outbox", "retry", "--all") == {"retried": 0}


def test_retry_of_rows_that_did_not_fail_is_refused(three_rows: Restante) -> None:
    assert three_rows.error_line("outbox", "retry", "1", "9").startswith("none of these rows is FAILED")


@pytest.mark.parametrize("args", [[], ["2", "--all"]])
def test_retry_needs_ids_or_all(three_rows: Restante, args: list[str]) -> None:
    result = three_rows("outbox", "retry", *args)
    assert result.exit_code == 2
    assert three_rows.json("outbox", "show", "2")["status"] == "FAILED"


@pytest.fixture
def with_external(restante: Restante, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Restante:
    """An external outbox named shop with one FAILED row, and an unreachable one."""
    external = sqlite_application(tmp_path)
    with closing(external.connect()) as conn:
        enqueue(conn, 7, {"type": "x", "ref": {}})
        conn.execute("UPDATE device_update_outbox SET status = 'FAILED'")
        conn.commit()
    monkeypatch.setenv("RESTANTE_OUTBOX", f"{external.address.url}?name=shop sqlite:///nowhere.db?name=gone")
    return restante


def test_rows_of_external_outbox_are_listed_shown_and_retried(with_external: Restante) -> None:
    (row,) = with_external.json("outbox", "list", "--source", "shop")
    assert (row["id"], row["device_id"], row["source"]) == (1, 7, "shop")
    assert "shop" in with_external.ok("outbox", "show", "1", "--source", "shop")
    assert with_external.json("outbox", "retry", "--all", "--source", "shop") == {"retried": 1}
    assert with_external.json("outbox", "list", "--source", "shop")[0]["status"] == "PENDING"
    assert with_external.json("outbox", "list") == []


def test_sources_lists_counts_and_problems(with_external: Restante) -> None:
    own, shop, gone = with_external.json("outbox", "sources")
    assert (own["source"], own["failed"], own["problem"]) == ("server", 0, None)
    assert (shop["source"], shop["failed"]) == ("shop", 1)
    assert (gone["source"], gone["pending"]) == ("gone", None)
    assert "unable to open" in gone["problem"]
    assert "gone" in with_external.ok("outbox", "sources")


def test_unknown_source_is_refused(with_external: Restante) -> None:
    assert "there is no outbox 'depot'" in with_external.error_line("outbox", "list", "--source", "depot")


def test_doctor_checks_external_outboxes(with_external: Restante) -> None:
    with_external.ok("user", "list")
    result = with_external("doctor")
    assert "outbox shop" in result.output
    assert "1 FAILED" in result.output
    assert "cannot be reached" in result.output
    assert result.exit_code == 1


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "sqlite"])
def test_schema_is_printed(kind: DatabaseKind) -> None:
    result = CliRunner().invoke(app, ["outbox", "schema", "--for", kind])
    assert (result.exit_code, result.stdout) == (0, schema(kind))


def test_trigger_is_printed_for_postgresql_only() -> None:
    result = CliRunner().invoke(app, ["outbox", "schema", "--for", "postgresql", "--notify"])
    assert (result.exit_code, result.stdout) == (0, schema("postgresql", notify=True))
    refused = CliRunner().invoke(app, ["outbox", "schema", "--for", "mysql", "--notify"])
    assert refused.exit_code != 0
