"""The pages of the server itself: settings without secrets, the doctor's findings, charts and nodes on the overview."""

from pathlib import Path

from restante.console.rendering.charts import PLACES, SECONDS_PER_PLACE, History, sparkline
from restante.server.config.settings import Settings
from restante.server.console_facts import setting_rows
from tests.console.console_server import ConsoleServer


def test_settings_show_values_and_what_was_changed(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        page = admin.get("/console/settings?show=changed").text
        assert "commands_needing_approval" in page
        assert "session_hours" not in page
        assert "session_hours" in admin.get("/console/settings").text


def test_settings_never_show_secrets() -> None:
    secret = "a very secret master key value"
    rows = {row.name: row for row in setting_rows(Settings(data=Path("x"), master_key=secret, metrics_token=secret))}
    assert rows["master_key"].value == rows["metrics_token"].value == "(hidden)"
    assert secret not in "".join(row.value for row in rows.values())


def test_doctor_shows_its_findings(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        page = admin.get("/console/settings/doctor").text
    for subject in ("master key", "disk", "database", "schema", "outbox"):
        assert f'<th scope="row">{subject}</th>' in page


def test_overview_shows_this_node_and_charts_to_those_who_may_see_everything(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        page = admin.get("/console").text
        assert "this node" in page
        for title in ("Device polls", "Commands dispatched", "Events delivered", "Commits"):
            assert title in page
    with server.client("bank") as bank:
        page = bank.get("/console").text
        assert "this node" not in page
        assert "Events delivered" in page
        assert "Device polls" not in page


def test_history_keeps_growth_of_counters_and_values_of_gauges() -> None:
    history = History()
    for count in (100, 100 + 10 * SECONDS_PER_PLACE, 50):
        history.add({"polls": count}, {"parked": count})
    assert history.values("polls") == [0.0, 10.0, 0.0]
    assert history.values("parked") == [100, 100 + 10 * SECONDS_PER_PLACE, 50]
    for _ in range(2 * PLACES):
        history.add({"polls": 0}, {})
    assert len(history.values("polls")) == PLACES


def test_chart_of_no_or_equal_values_is_drawn() -> None:
    for values in ([], [0.0], [3.0, 3.0]):
        assert "nan" not in sparkline(values, "nothing & more")
        assert 'aria-label="nothing &amp; more"' in sparkline(values, "nothing & more")
