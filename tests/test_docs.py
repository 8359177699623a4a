"""Check the pages: run their examples unchanged, follow their links, and compare their lists with the code.

Pages about edge commands are checked in `test_edge_docs.py`, pages about events in `test_event_*docs.py`.
"""

import json
import re
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from restante.core.errors import RestanteError
from restante.server.app import opened
from restante.server.config.settings import Settings
from restante.server.monitoring.metrics import METRICS
from restante.updates import response_format
from tests.documented import (
    DOCS,
    README,
    REPOSITORY,
    blocks_of,
    check_examples,
    examples_of,
    missing_lines,
    next_line,
    run_script,
    running_program,
)
from tests.faults.client import Client
from tests.faults.server_process import TIMEOUT_SECONDS, PreparedData, prepare_data, running_server

CLIENT_PAGE = DOCS / "device-updates.md"
BULK_PAGE = DOCS / "bulk-and-rollouts.md"
OPERATOR_PAGE = DOCS / "operator-guide.md"
RUNBOOK = DOCS / "operations.md"
EDGE_PAGES = [DOCS / "edge-commands.md", DOCS / "edge-operations.md"]
EVENT_PAGES = [*sorted(DOCS.glob("event-*.md")), DOCS / "shared-signals.md"]
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
PAGES = [
    README,
    REPOSITORY / "CHANGELOG.md",
    REPOSITORY / "SECURITY.md",
    REPOSITORY / "bench" / "RESULTS.md",
    REPOSITORY / "client" / "README.md",
    REPOSITORY / "vectors" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]

# The examples of other pages continue after these steps of the tour: signed in, one device registered.
TOUR_STEPS_BEFORE = 2

_FENCED = re.compile(r"^```.*?^```\n", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
# The second cell of a table row that begins with a level.
_LOG_EVENTS = re.compile(r"^\| (?:info|warning|error) \| ([^|]*) \|", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, CLIENT_PAGE, OPERATOR_PAGE], ids=lambda page: page.stem)
def test_examples_produce_the_documented_output(page: Path, tmp_path: Path) -> None:
    check_examples(tmp_path, page, [] if page == README else examples_of(README)[:TOUR_STEPS_BEFORE])


def test_missing_output_lines_are_reported() -> None:
    output = '{"data":{"cursor":"17-2"}}\r\nactive\n'
    assert missing_lines(['{"data":{"cursor":"…-2"}}', "active"], output) == []
    assert missing_lines(['{"data":{"cursor":"…-3"}}', "active"], output) != []
    assert missing_lines(["active", '{"data":…}'], output) == ['{"data":…}']


@pytest.mark.slow
def test_documented_backup_can_be_restored(tmp_path: Path) -> None:
    backup, restore = examples_of(RUNBOOK)
    prepared = prepare_data(tmp_path / "data")
    with running_server(prepared.data) as server:
        operator = Client(server.port, prepared.key)
        kept = register(operator, prepared)
        run_script(tmp_path, backup.script)
        lost = register(operator, prepared)
        operator.close()
    findings = run_script(tmp_path, restore.script)
    assert "problem" not in findings
    with running_server(prepared.data) as server:
        assert poll_status(server.port, kept, None) == 204
        assert poll_status(server.port, lost, None) == 403
        assert poll_status(server.port, kept, "9999999999999-1") == 409


def poll_status(port: int, registered: dict[str, Any], cursor: str | None) -> int:
    with closing(Client(port, registered["session"]["access_token"])) as device:
        return device.poll(cursor).status


class DocumentedClient:
    """The client of the page, run as a separate process on a state file."""

    def __init__(self, folder: Path, port: int, session: dict[str, Any]) -> None:
        (program,) = blocks_of(CLIENT_PAGE, "python")
        self._file = folder / "client.py"
        self._file.write_text(program)
        self._state_file = folder / "state.json"
        self._state_file.write_text(json.dumps(session))
        self._server = f"http://127.0.0.1:{port}"

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._state_file.read_text())
        return state

    def change_state(self, **changed: str) -> None:
        self._state_file.write_text(json.dumps(self.state | changed))

    def running(self) -> AbstractContextManager["subprocess.Popen[str]"]:
        return running_program(self._file, self._server, str(self._state_file))


class Fleet(NamedTuple):
    operator: Client
    device: str
    client: DocumentedClient

    def send(self, type: str) -> None:
        assert self.operator.request("POST", f"{self.device}/signals", {"type": type, "ref": {}}).status == 202


def register(operator: Client, prepared: PreparedData) -> dict[str, Any]:
    body = {"device_public_id": str(uuid.uuid4()), "dev_pk": "A" * 42 + "k="}
    registered: dict[str, Any] = operator.request("POST", f"/apiv1/users/{prepared.user_id}/devices", body).data
    return registered


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A server with a poll interval of one second, one registered device, and the page's client for it."""
    prepared = prepare_data(tmp_path / "data")
    every_second = ("--poll-interval-seconds", "1", "--boost-poll-interval-seconds", "1")
    with running_server(prepared.data, *every_second) as server:
        operator = Client(server.port, prepared.key)
        registered = register(operator, prepared)
        device = f"/apiv1/users/{prepared.user_id}/devices/{registered['device']['id']}"
        yield Fleet(operator, device, DocumentedClient(tmp_path, server.port, registered["session"]))
        operator.close()


@pytest.mark.slow
def test_documented_client_fetches_changes_and_continues_after_restart(fleet: Fleet) -> None:
    with fleet.client.running() as process:
        fleet.operator.request("PUT", f"{fleet.device}/install-config", {"installs": []})
        assert next_line(process) == "install.updated 200"
        fleet.send("shop.opens")
        assert next_line(process) == "shop.opens None"
        fleet.send("shop.closes")
        assert next_line(process) == "shop.closes None"
    # The client may have been killed before or after it stored the cursor of the last signal.
    with fleet.client.running() as process:
        fleet.send("shop.opens.again")
        line = next_line(process)
        if line == "shop.closes None":
            line = next_line(process)
        assert line == "shop.opens.again None"


@pytest.mark.slow
def test_documented_client_refreshes_expired_token(fleet: Fleet) -> None:
    before = fleet.client.state
    fleet.client.change_state(access_token="expired")
    with fleet.client.running() as process:
        fleet.send("shop.opens")
        assert next_line(process) == "shop.opens None"
    assert fleet.client.state["refresh_token"] != before["refresh_token"]


@pytest.mark.slow
def test_documented_client_recovers_from_expired_cursor(fleet: Fleet) -> None:
    fleet.operator.request("PUT", f"{fleet.device}/install-config", {"installs": []})
    fleet.client.change_state(cursor="9999999999999-5")
    with fleet.client.running() as process:
        assert next_line(process) == "resync 200"
        fleet.send("shop.opens")
        assert next_line(process) in ("shop.opens None", "install.updated 200")


@pytest.mark.slow
def test_documented_client_stops_when_device_is_revoked(fleet: Fleet) -> None:
    fleet.operator.request("DELETE", fleet.device)
    with fleet.client.running() as process:
        assert process.wait(TIMEOUT_SECONDS) != 0
        assert process.stderr is not None
        assert "403" in process.stderr.read()


def test_every_route_is_documented(tmp_path: Path) -> None:
    documented = "".join(
        page.read_text() for page in (CLIENT_PAGE, OPERATOR_PAGE, BULK_PAGE, RUNBOOK, *EDGE_PAGES, *EVENT_PAGES)
    )
    with opened(Settings(data=tmp_path)) as node:
        # Assets are parts of our own pages, not an interface.
        callable_routes = [route for route in node.routes() if not route.path.startswith("/assets/")]
    names = [f"{route.method} {route.path}" for route in callable_routes]
    assert [name for name in names if f"`{name}`" not in documented] == []


def test_every_metric_is_documented() -> None:
    documented = RUNBOOK.read_text() + EDGE_PAGES[1].read_text()
    names = [*METRICS, "restante_http_requests", "restante_http_request_duration_seconds"]
    assert [name for name in names if f"`{name}" not in documented] == []


def error_kinds(kind: type[RestanteError] = RestanteError) -> Iterator[type[RestanteError]]:
    yield kind
    for each in kind.__subclasses__():
        # Skip errors defined by tests, and those of the other protocols, which have their own pages.
        others = ("restante.commands.", "restante.events.")
        if each.__module__.startswith("restante.") and not each.__module__.startswith(others):
            yield from error_kinds(each)


def test_every_error_code_is_documented() -> None:
    named = {response_format.CURSOR_EXPIRED, response_format.REFRESH_TOKEN_ROTATED}
    by_status = {
        response_format.error_code(type("Plain", (RestanteError,), {"status": kind.status})()) for kind in error_kinds()
    }
    rows = re.findall(r"^\| \d{3} \| (\d+) \|", CLIENT_PAGE.read_text(), re.MULTILINE)
    assert {int(code) for code in rows} == named | by_status


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_has_a_target(page: Path) -> None:
    prose = _CODE.sub("", _FENCED.sub("", page.read_text()))
    for link in _LINK.findall(prose):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_readme_links_to_every_page() -> None:
    linked = {(README.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(README.read_text())}
    assert {page for page in DOCS.glob("*.md") if page not in linked} == set()


def test_decision_numbers_are_unique() -> None:
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert len(numbers) == len(set(numbers)) > 0


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name[:4])
def test_decision_has_the_common_format(page: Path) -> None:
    text = page.read_text()
    assert re.match(rf"# {page.name[:4]}\. \S.*\n\nDate: \d{{4}}-\d\d-\d\d\n\nStatus: (accepted|superseded by )", text)
    assert re.findall("^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_index_of_decisions_has_every_title_once() -> None:
    index = " ".join((DOCS / "decisions" / "README.md").read_text().split())
    entries = re.findall(r"- \[(\d{4})\]\(([^)]+)\) (.*?)\.(?: \*Superseded by (\d{4})\.\*)?(?= - \[| ## |$)", index)
    expected = []
    for page in DECISIONS:
        title, status = page.read_text().split("\n", 1)[0], status_of(page)
        superseding = status.partition("superseded by [")[2][:4]
        expected.append((page.name[:4], page.name, title.partition(". ")[2], superseding))
    assert sorted(entries) == expected


def status_of(page: Path) -> str:
    return page.read_text().split("\nStatus: ", 1)[1].split("\n\n", 1)[0]


def test_decisions_that_change_each_other_link_in_both_directions() -> None:
    links = {(page.name, link) for page in DECISIONS for link in _LINK.findall(status_of(page))}
    assert links
    assert [(page, link) for page, link in sorted(links) if (link, page) not in links] == []


def test_index_of_pages_is_complete() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in _LINK.findall(index.read_text())}
    assert {page for page in DOCS.glob("*.md") if page not in linked} == {index}


def test_every_path_in_the_architecture_exists() -> None:
    text = (DOCS / "architecture.md").read_text()
    paths = {path.rstrip("/") for path in re.findall(r"\b(?:src|tests|docs|bench)/[\w./@-]*\w", text)}
    assert paths
    assert [path for path in sorted(paths) if not (REPOSITORY / path).exists()] == []


def test_every_sub_package_is_in_the_architecture() -> None:
    rows = re.findall(r"^\| `src/restante/(\w+)` \|.*\| (.*) \|$", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    source = REPOSITORY / "src" / "restante"
    listed = {package: set(re.findall(r"`(\w+)`", folders)) for package, folders in rows}
    actual = {
        package.name: {folder.name for folder in package.iterdir() if folder.is_dir() and folder.name != "__pycache__"}
        for package in source.iterdir()
        if (package / "__init__.py").exists()
    }
    assert listed == actual


def test_every_documented_log_event_is_in_the_source() -> None:
    logs = RUNBOOK.read_text().split("\n## Logs\n", 1)[1].split("\n## ", 1)[0]
    events = [event for line in _LOG_EVENTS.findall(logs) for event in re.findall(r"`([^`]+)`", line)]
    source = "".join(module.read_text() for module in (REPOSITORY / "src").rglob("*.py"))
    assert events
    assert [event for event in events if event.removeprefix("[device-outbox] ") not in source] == []
