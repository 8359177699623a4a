import pytest

from restante.database.connection import Connection
from restante.database.queries import Query
from tests.cli.conftest import AddDevice, Restante

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


def test_list_all_or_by_status_and_device(three_rows: Restante) -> None:
    assert ids(three_rows.json("outbox", "list")) == [3, 2, 1]
    assert ids(three_rows.json("outbox", "list", "--status", "FAILED")) == [3, 2]
    assert ids(three_rows.json("outbox", "list", "--status", "failed", "--device", "2")) == [3]
    assert ids(three_rows.json("outbox", "list", "--limit", "1", "--after", "3")) == [2]
    assert "no such log" in three_rows.ok("outbox", "list")


def test_an_empty_list_says_so(restante: Restante) -> None:
    assert restante.ok("outbox", "list") == "No rows.\n"
    assert restante.json("outbox", "list") == []


@pytest.mark.parametrize("wrong", [["--status", "LOST"], ["--limit", "0"], ["--limit", "1001"], ["--after", "-1"]])
def test_a_wrong_filter_is_wrong_usage(restante: Restante, wrong: list[str]) -> None:
    assert restante("outbox", "list", *wrong).exit_code == 2


def test_show(three_rows: Restante) -> None:
    shown = three_rows.json("outbox", "show", "2")
    assert (shown["status"], shown["attempts"], shown["failure_reason"]) == ("FAILED", 10, "no such log")
    assert '"type":"test.1"' in three_rows.ok("outbox", "show", "2")
    assert three_rows.complaint("outbox", "show", "9") == "there is no outbox row 9"


def test_retry_gives_the_named_rows_a_new_start(three_rows: Restante) -> None:
    assert three_rows.json("outbox", "retry", "2") == {"retried": 1}
    shown = three_rows.json("outbox", "show", "2")
    assert (shown["status"], shown["attempts"], shown["failure_reason"]) == ("PENDING", 0, None)
    assert three_rows.json("outbox", "show", "3")["status"] == "FAILED"


def test_retry_all(three_rows: Restante) -> None:
    assert three_rows.ok("outbox", "retry", "--all") == "2 rows will be tried again.\n"
    assert three_rows.json("outbox", "retry", "--all") == {"retried": 0}


def test_retry_of_what_has_not_failed_changes_nothing(three_rows: Restante) -> None:
    assert three_rows.complaint("outbox", "retry", "1", "9").startswith("none of these rows is FAILED")


@pytest.mark.parametrize("args", [[], ["2", "--all"]])
def test_retry_wants_ids_or_all(three_rows: Restante, args: list[str]) -> None:
    result = three_rows("outbox", "retry", *args)
    assert result.exit_code == 2
    assert three_rows.json("outbox", "show", "2")["status"] == "FAILED"
