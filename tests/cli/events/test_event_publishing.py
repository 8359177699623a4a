import json

from tests.cli.conftest import Restante
from tests.events import inbox_fixture

EVENTS = '{"urn:example:account-closed": {}}'
SUB = ("--sub", "https://bank.example/accounts/1")


def add_client(restante: Restante, client_id: str = "tpp") -> int:
    with restante.database() as database:
        return database.write_now(inbox_fixture.add_client, client_id).id


def make_errored(restante: Restante, client: int, *jtis: str) -> None:
    with restante.database() as database:
        database.write_now(inbox_fixture.put_ready, client, *jtis)
        database.write_now(inbox_fixture.report_errors, client, dict.fromkeys(jtis, ("jwtIss", "not ours")))


def test_publish_list_and_show(restante: Restante) -> None:
    add_client(restante)
    jti = restante.ok("events", "publish", EVENTS, "--client", "tpp", *SUB, "--txn", "t-1").strip()
    [other] = restante.json("events", "publish", "-", "--all-subscribers", *SUB, "--toe", "7", stdin=EVENTS)["jtis"]
    listed = restante.json("events", "list", "--client", "tpp", "--status", "unsigned")["items"]
    assert [each["jti"] for each in listed] == [other, jti]
    assert jti in restante.ok("events", "list", "--txn", "t-1")
    assert restante.json("events", "show", other)["claims"]["toe"] == 7
    assert "account-closed" in restante.ok("events", "show", jti)


def test_list_names_next_page(restante: Restante) -> None:
    add_client(restante)
    for _ in range(3):
        restante.ok("events", "publish", EVENTS, "--client", "tpp", *SUB)
    assert "There are more: --after" in restante.ok("events", "list", "--limit", "2")


def test_publish_without_subscribers_publishes_nothing(restante: Restante) -> None:
    assert "Nobody asked" in restante.ok("events", "publish", EVENTS, "--all-subscribers", *SUB)


def test_invalid_arguments_are_refused(restante: Restante) -> None:
    add_client(restante)
    assert "EVENTS" in restante.error_line("events", "publish", "[", "--client", "tpp", *SUB)
    assert "--sub-id" in restante.error_line("events", "publish", EVENTS, "--client", "tpp", "--sub-id", "[]")
    assert "sub" in restante.error_line("events", "publish", EVENTS, "--client", "tpp")
    assert "nobody" in restante.error_line("events", "publish", EVENTS, "--client", "nobody", *SUB)
    assert "--status" in restante.error_line("events", "list", "--status", "odd")
    assert "nothing" in restante.error_line("events", "show", "nothing")


def test_status_counts_events_of_clients(restante: Restante) -> None:
    assert restante.ok("events", "status") == "No clients.\n"
    make_errored(restante, add_client(restante), "a", "b")
    restante.ok("events", "publish", EVENTS, "--client", "tpp", *SUB)
    [status] = restante.json("events", "status")["items"]
    assert (status["waiting"], status["errored"]) == (1, 2)
    assert "tpp" in restante.ok("events", "status")
    assert restante.json("events", "status", "tpp")["reasons"][0]["count"] == 2
    assert "jwtIss" in restante.ok("events", "status", "tpp")


def test_errored_events_are_released_or_dropped(restante: Restante) -> None:
    make_errored(restante, add_client(restante), "a", "b", "c", "d")
    assert "not ours" in restante.ok("events", "errored", "--client", "tpp")
    assert restante.ok("events", "release", "a") == "1 event is released.\n"
    assert restante.json("events", "drop", "b", "b") == {"count": 1}
    # All of those that are named, or none.
    assert "ready" in restante.error_line("events", "release", "c", "a")
    assert restante.json("events", "show", "c")["status"] == "errored"
    assert restante.ok("events", "drop", "--all-of", "tpp") == "2 events are dropped.\n"
    assert [each["jti"] for each in json.loads(restante.ok("events", "errored", "--json"))["items"]] == []


def test_release_needs_jtis_or_client(restante: Restante) -> None:
    for args in ((), ("a", "--all-of", "tpp")):
        assert restante("events", "release", *args).exit_code == 2
