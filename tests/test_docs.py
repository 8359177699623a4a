"""The documentation holds: its examples are run as they stand, and nothing the server has is left unsaid.

What is said of edge commands alone has its tests in `test_edge_docs.py`.
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
from restante.server.metrics import METRICS
from restante.server.settings import Settings
from restante.updates import wire
from tests.documented import (
    DOCS,
    README,
    REPOSITORY,
    blocks_of,
    check_answers,
    examples_of,
    missing_lines,
    next_line,
    paste,
    program_at_work,
)
from tests.faults.client import Client
from tests.faults.server_process import PATIENCE_SECONDS, Prepared, prepare, running

CLIENT_PAGE = DOCS / "device-updates.md"
OPERATOR_PAGE = DOCS / "operator-guide.md"
RUNBOOK = DOCS / "operations.md"
EDGE_PAGES = [DOCS / "edge-commands.md", DOCS / "edge-operations.md"]
EVENT_PAGES = [*sorted(DOCS.glob("event-*.md")), DOCS / "shared-signals.md"]
PAGES = [README, REPOSITORY / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]

# The other pages' examples go on from where these leave off: signed in, one device registered.
STEPS_BEFORE = 2

_FENCED = re.compile(r"^```.*?^```\n", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, CLIENT_PAGE, OPERATOR_PAGE], ids=lambda page: page.stem)
def test_the_examples_answer_what_the_page_says(page: Path, tmp_path: Path) -> None:
    check_answers(tmp_path, page, [] if page == README else examples_of(README)[:STEPS_BEFORE])


def test_an_answer_that_differs_is_noticed() -> None:
    output = '{"data":{"cursor":"17-2"}}\r\nactive\n'
    assert missing_lines(['{"data":{"cursor":"…-2"}}', "active"], output) == []
    assert missing_lines(['{"data":{"cursor":"…-3"}}', "active"], output) != []
    assert missing_lines(["active", '{"data":…}'], output) == ['{"data":…}']


@pytest.mark.slow
def test_a_backup_made_by_the_runbook_is_restored_by_it(tmp_path: Path) -> None:
    backup, restore = examples_of(RUNBOOK)
    prepared = prepare(tmp_path / "data")
    with running(prepared.data) as server:
        operator = Client(server.port, prepared.key)
        kept = register(operator, prepared)
        paste(tmp_path, backup.script)
        lost = register(operator, prepared)
        operator.close()
    findings = paste(tmp_path, restore.script)
    assert "problem" not in findings
    with running(prepared.data) as server:
        assert poll_status(server.port, kept, None) == 204
        assert poll_status(server.port, lost, None) == 403
        assert poll_status(server.port, kept, "9999999999999-1") == 409


def poll_status(port: int, registered: dict[str, Any], cursor: str | None) -> int:
    with closing(Client(port, registered["session"]["access_token"])) as device:
        return device.poll(cursor).status


class DocumentedClient:
    """The client of the page, run as a program of its own on a state file."""

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
        return program_at_work(self._file, self._server, str(self._state_file))


class Fleet(NamedTuple):
    operator: Client
    device: str
    client: DocumentedClient

    def send(self, type: str) -> None:
        assert self.operator.ask("POST", f"{self.device}/signals", {"type": type, "ref": {}}).status == 202


def register(operator: Client, prepared: Prepared) -> dict[str, Any]:
    body = {"device_public_id": str(uuid.uuid4()), "dev_pk": "A" * 42 + "k="}
    registered: dict[str, Any] = operator.ask("POST", f"/apiv1/users/{prepared.user_id}/devices", body).data
    return registered


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A server that asks for a poll every second, one device, and the client that speaks for it."""
    prepared = prepare(tmp_path / "data")
    every_second = ("--poll-interval-seconds", "1", "--rollout-poll-interval-seconds", "1")
    with running(prepared.data, *every_second) as server:
        operator = Client(server.port, prepared.key)
        registered = register(operator, prepared)
        device = f"/apiv1/users/{prepared.user_id}/devices/{registered['device']['id']}"
        yield Fleet(operator, device, DocumentedClient(tmp_path, server.port, registered["session"]))
        operator.close()


@pytest.mark.slow
def test_the_documented_client_fetches_what_it_is_told_of_and_goes_on_where_it_was(fleet: Fleet) -> None:
    with fleet.client.running() as process:
        fleet.operator.ask("PUT", f"{fleet.device}/install-config", {"installs": []})
        assert next_line(process) == "install.updated 200"
        fleet.send("shop.opens")
        assert next_line(process) == "shop.opens None"
        fleet.send("shop.closes")
        assert next_line(process) == "shop.closes None"
    # Of the last one it cannot be told whether the client had put its cursor behind it when it was ended.
    with fleet.client.running() as process:
        fleet.send("shop.opens.again")
        told = [next_line(process)]
        if told == ["shop.closes None"]:
            told = [next_line(process)]
        assert told == ["shop.opens.again None"]


@pytest.mark.slow
def test_the_documented_client_refreshes_its_tokens(fleet: Fleet) -> None:
    before = fleet.client.state
    fleet.client.change_state(access_token="expired")
    with fleet.client.running() as process:
        fleet.send("shop.opens")
        assert next_line(process) == "shop.opens None"
    assert fleet.client.state["refresh_token"] != before["refresh_token"]


@pytest.mark.slow
def test_the_documented_client_recovers_from_a_cursor_that_has_expired(fleet: Fleet) -> None:
    fleet.operator.ask("PUT", f"{fleet.device}/install-config", {"installs": []})
    fleet.client.change_state(cursor="9999999999999-5")
    with fleet.client.running() as process:
        assert next_line(process) == "resync 200"
        fleet.send("shop.opens")
        assert next_line(process) in ("shop.opens None", "install.updated 200")


@pytest.mark.slow
def test_the_documented_client_stops_when_its_device_is_revoked(fleet: Fleet) -> None:
    fleet.operator.ask("DELETE", fleet.device)
    with fleet.client.running() as process:
        assert process.wait(PATIENCE_SECONDS) != 0
        assert process.stderr is not None
        assert "403" in process.stderr.read()


def test_every_route_is_named(tmp_path: Path) -> None:
    said = "".join(page.read_text() for page in (CLIENT_PAGE, OPERATOR_PAGE, RUNBOOK, *EDGE_PAGES, *EVENT_PAGES))
    with opened(Settings(data=tmp_path)) as node:
        # What a page of ours is made of is nothing to call.
        callable_ones = [route for route in node.routes() if not route.path.startswith("/assets/")]
    names = [f"{route.method} {route.path}" for route in callable_ones]
    assert [name for name in names if f"`{name}`" not in said] == []


def test_every_metric_is_explained() -> None:
    said = RUNBOOK.read_text()
    names = [*METRICS, "restante_http_requests", "restante_http_request_duration_seconds"]
    assert [name for name in names if f"`{name}" not in said] == []


def error_kinds(kind: type[RestanteError] = RestanteError) -> Iterator[type[RestanteError]]:
    yield kind
    for each in kind.__subclasses__():
        # Other tests may have made errors of their own, and the other protocols have theirs on pages of their own.
        others = ("restante.commands.", "restante.events.")
        if each.__module__.startswith("restante.") and not each.__module__.startswith(others):
            yield from error_kinds(each)


def test_every_error_code_is_explained() -> None:
    named = {wire.CURSOR_EXPIRED, wire.REFRESH_TOKEN_ROTATED}
    by_status = {wire.error_code(type("Plain", (RestanteError,), {"status": kind.status})()) for kind in error_kinds()}
    rows = re.findall(r"^\| \d{3} \| (\d+) \|", CLIENT_PAGE.read_text(), re.MULTILINE)
    assert {int(code) for code in rows} == named | by_status


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = _CODE.sub("", _FENCED.sub("", page.read_text()))
    for link in _LINK.findall(prose):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_the_readme_leads_to_every_page() -> None:
    linked = {(README.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(README.read_text())}
    assert {page for page in DOCS.glob("*.md") if page not in linked} == set()


def test_no_number_of_a_decision_is_used_twice() -> None:
    numbers = [int(page.name[:4]) for page in (DOCS / "decisions").glob("[0-9]*.md")]
    assert len(numbers) == len(set(numbers)) > 0
