"""What is written about edge commands holds: examples, signatures, the collector to start from, and every list."""

import importlib
import json
import os
import pkgutil
import re
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

import restante
from restante.commands import wire
from restante.commands.acks import REPLAYED
from restante.commands.command_types import COMMAND_TYPES
from restante.commands.polled import LEGACY_NAMES, PollAnswer, PolledCommand
from restante.commands.rate_windows import RateRules
from restante.commands.safety import ACTIONS
from restante.commands.why import WaitingFor
from restante.core.ack import STATUSES
from restante.core.canonical import SIGNED_FIELDS
from restante.core.command_states import Event, State, diagram
from restante.core.errors import RestanteError
from restante.server.commands_metrics import COMMANDS_METRICS
from restante.server.settings import CONTRACT_SETTINGS, DECLARED
from tests.documented import DOCS, README, REPOSITORY, blocks_of, check_answers, examples_of, next_line, program_at_work
from tests.faults.client import Client
from tests.faults.server_process import PATIENCE_SECONDS, prepare, running

COLLECTOR_PAGE = DOCS / "edge-commands.md"
OPERATOR_PAGE = DOCS / "edge-operations.md"
VECTORS = json.loads((DOCS / "command-signature-vectors.json").read_text(encoding="utf-8"))
ADMIN = "/api/edge/v1/admin"
# What only the other protocols, and the server itself, answer with.
OTHERS = ("restante.updates", "restante.events", "restante.server")

_EVENT = re.compile(r"(?:ack|chain|collector|command|miner|rule|site|zone)\.[a-z_]+")

# As the pages tell the reader to start the server.
FLAGS = ("--enable-command-signature", "--commands-needing-approval", "DEVICE_REBOOT")


def rows_of(page: Path, title: str) -> list[list[str]]:
    """The cells of the table rows under a title, without the header."""
    section = page.read_text().split(f"# {title}\n", 1)[1].split("\n#", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [row for row in rows if not set(row[0]) <= {"-"}]


def words_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


@pytest.mark.slow
@pytest.mark.parametrize("page", [COLLECTOR_PAGE, OPERATOR_PAGE], ids=lambda page: page.stem)
def test_the_examples_answer_what_the_page_says(page: Path, tmp_path: Path) -> None:
    tour = examples_of(README)
    site_made = next(example for example in tour if "/admin/sites" in example.script)
    check_answers(tmp_path, page, [tour[0], site_made], *FLAGS)


def test_the_diagram_is_drawn_from_the_table_of_states() -> None:
    assert blocks_of(COLLECTOR_PAGE, "mermaid") == [diagram()]


def test_every_state_is_explained() -> None:
    assert words_in(str(rows_of(COLLECTOR_PAGE, "The life of a command"))) >= set(State)


def test_every_error_code_is_explained_with_its_status() -> None:
    named = {(row[0], row[1].strip("`")) for row in rows_of(COLLECTOR_PAGE, "Errors")[1:]}
    assert named == {("200", REPLAYED), *error_codes()}


def error_codes() -> set[tuple[str, str]]:
    """Everything that can be answered in this protocol's shape, with its status."""
    for module in pkgutil.walk_packages(restante.__path__, "restante."):
        if module.name.startswith(("restante.commands.", "restante.web.")):
            importlib.import_module(module.name)
    own, plain = set(), set()
    for kind in error_kinds(RestanteError):
        code = getattr(kind, "code", None)
        if kind is RestanteError or kind.__module__.startswith(OTHERS):
            continue
        if code is not None:
            own.add((str(kind.status), code))
        else:
            plain.add((str(kind.status), wire.error_code(type("Plain", (RestanteError,), {"status": kind.status})())))
    return own | plain


def error_kinds(kind: type[RestanteError]) -> Iterator[type[RestanteError]]:
    yield kind
    for each in kind.__subclasses__():
        # Other tests may have made errors of their own.
        if each.__module__.startswith("restante."):
            yield from error_kinds(each)


def test_every_field_of_a_polls_answer_is_explained() -> None:
    cells = rows_of(COLLECTOR_PAGE, "Polling")
    explained = {field: row[1] for row in cells if len(row) == 3 for field in words_in(row[0])}
    assert set(explained) >= set(PolledCommand.__struct_fields__)
    assert {field for field, signed in explained.items() if signed == "yes"} == set(SIGNED_FIELDS)
    said = words_in(COLLECTOR_PAGE.read_text())
    assert {field for field in PollAnswer.__struct_fields__ if field != "commands"} <= said
    assert set(LEGACY_NAMES.values()) <= said


def test_every_status_of_an_ack_is_explained() -> None:
    assert words_in(str(rows_of(COLLECTOR_PAGE, "Acknowledging"))) >= set(STATUSES)


def test_the_rate_limits_are_those_in_force() -> None:
    rules = RateRules()
    limits = {**{f"`{name}`": limit for name, limit in rules.limits.items()}, "all others": rules.default}
    assert rows_of(COLLECTOR_PAGE, "Rate limits")[1:] == [
        [name, str(limit.limit), str(limit.window_seconds)] for name, limit in limits.items()
    ]


def test_every_safety_action_is_named() -> None:
    assert words_in(COLLECTOR_PAGE.read_text()) >= set(ACTIONS)


def test_every_command_type_is_explained_with_its_names_and_parameters() -> None:
    rows = {row[0].strip("`"): row for row in rows_of(OPERATOR_PAGE, "Types and parameters")[1:]}
    assert rows.keys() == COMMAND_TYPES.keys()
    for name, kind in COMMAND_TYPES.items():
        assert words_in(rows[name][1]) == set(kind.aliases)
        assert words_in(rows[name][2]) | {"reason"} >= set(kind.schema.__struct_fields__)


def test_every_reason_for_waiting_is_explained() -> None:
    rows = rows_of(OPERATOR_PAGE, "Why is it not there yet?")[1:]
    assert set().union(*(words_in(row[0]) for row in rows)) == set(get_args(WaitingFor))


def test_every_event_of_the_audit_trail_is_named() -> None:
    named = {word for row in rows_of(OPERATOR_PAGE, "Audit trail") for word in words_in(row[-1]) if _EVENT.match(word)}
    assert named == {f"command.{event}" for event in Event} | set(events_in_the_source())


def events_in_the_source() -> Iterator[str]:
    for folder in ("commands", "cli"):
        for module in (REPOSITORY / "src" / "restante" / folder).glob("*.py"):
            yield from re.findall(rf'"({_EVENT.pattern})"', module.read_text())


def test_every_metric_is_explained() -> None:
    rows = {row[0].strip("`").removesuffix("_total"): row for row in rows_of(OPERATOR_PAGE, "Metrics")[1:]}
    assert rows.keys() == COMMANDS_METRICS.keys()
    for name, meaning in COMMANDS_METRICS.items():
        assert words_in(rows[name][1]) == set(meaning.labels)


def test_the_settings_that_matter_are_there() -> None:
    named = set().union(*(words_in(row[0]) for row in rows_of(OPERATOR_PAGE, "Settings that matter")[1:]))
    assert CONTRACT_SETTINGS <= named <= DECLARED.keys()


@pytest.fixture(scope="module")
def signatures() -> dict[str, Any]:
    """What the page's first program defines."""
    defined: dict[str, Any] = {"__name__": "signatures"}
    exec(blocks_of(COLLECTOR_PAGE, "python")[0], defined)
    return defined


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_the_documented_verification_agrees_with_the_vectors(
    vector: dict[str, Any], signatures: dict[str, Any]
) -> None:
    assert signatures["canonical"](vector["command"]).hex() == vector["canonical_hex"]
    command = {**vector["command"], "signature": vector["signature"], "sig_version": VECTORS["sig_version"]}
    is_genuine = signatures["is_genuine"]
    assert is_genuine(command | {"attempt": 1, "lease_until": "2026-01-18T10:01:00Z"}, vector["secret"])
    assert not is_genuine(command, "0" * 64)
    assert not is_genuine(command | {"priority": command["priority"] + 1}, vector["secret"])
    assert not is_genuine(command | {"signature": None}, vector["secret"])
    assert not is_genuine(command | {"sig_version": "another"}, vector["secret"])
    assert not is_genuine({name: value for name, value in command.items() if name != "nonce"}, vector["secret"])


class DocumentedCollector:
    """The collector of the page with its state file, running a program that notes that it ran."""

    def __init__(self, folder: Path, port: int, state: dict[str, Any]) -> None:
        self._folder = folder
        for name, text in zip(("signatures.py", "collector.py"), blocks_of(COLLECTOR_PAGE, "python"), strict=True):
            (folder / name).write_text(text)
        self._server = f"http://127.0.0.1:{port}"
        self.change_state(**state)
        self.does("exit 0")

    def change_state(self, **changed: object) -> None:
        file = self._folder / "state.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(before | changed))

    def does(self, script: str) -> None:
        """What its program does, beside noting that it ran."""
        program = self._folder / "program"
        program.write_text(f'#!/bin/sh\necho "$1" >> ran\n{script}\n')
        program.chmod(0o700)

    @property
    def ran(self) -> list[str]:
        file = self._folder / "ran"
        return file.read_text().split() if file.exists() else []

    def running(self) -> AbstractContextManager["subprocess.Popen[str]"]:
        return program_at_work(self._folder / "collector.py", self._server, "state.json", "./program")


class Site(NamedTuple):
    operator: Client
    port: int
    collector: DocumentedCollector
    token: str

    def send(self, **more: object) -> str:
        body = {"site_id": 1, "miner_id": 1, "command_type": "SET_FAN", "params": {"speed": 80}, **more}
        made = self.operator.ask("POST", f"{ADMIN}/commands", body)
        assert made.status == 201, made.body
        return str(made.body["command_id"])

    def command(self, command_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.operator.ask("GET", f"{ADMIN}/commands/{command_id}").body
        return shown


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server with short leases and short back-offs, a miner, and the page's collector for it."""
    prepared = prepare(tmp_path / "data")
    hasty = ("--command-lease-duration-sec", "1", "--default-retry-backoff-sec", "1")
    with running(prepared.data, *FLAGS, *hasty, "--require-ack-nonce") as server:
        operator = Client(server.port, prepared.key)
        operator.ask("POST", f"{ADMIN}/sites", {"name": "north"})
        operator.ask("POST", f"{ADMIN}/miners", {"site_id": 1, "name": "shelf 1"})
        added = operator.ask("POST", f"{ADMIN}/devices", {"site_id": 1, "device_name": "roof"}).body
        state = {"token": added["token"], "hmac_secret": added["hmac_secret"]}
        folder = tmp_path / "collector"
        folder.mkdir()
        yield Site(operator, server.port, DocumentedCollector(folder, server.port, state), added["token"])
        operator.close()


@pytest.mark.slow
def test_the_documented_collector_does_what_it_is_told_and_says_so(site: Site) -> None:
    with site.collector.running() as process:
        first = site.send()
        assert next_line(process) == f"{first} succeeded 200"
        second = site.send(command_type="POWER_MODE", params={"mode": "LOW"})
        assert next_line(process) == f"{second} succeeded 200"
    assert site.collector.ran == ["SET_FAN", "POWER_MODE"]
    assert [site.command(each)["status"] for each in (first, second)] == ["succeeded", "succeeded"]


@pytest.mark.slow
def test_the_documented_collector_tries_again_what_failed(site: Site) -> None:
    site.collector.does("exit 7")
    command_id = site.send(max_retries=1)
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} failed 200"
        assert next_line(process) == f"{command_id} failed 200"
    command = site.command(command_id)
    assert (command["status"], command["result_code"], command["attempt"]) == ("failed", "7", 2)
    assert site.collector.ran == ["SET_FAN", "SET_FAN"]


@pytest.mark.slow
def test_the_documented_collector_that_is_killed_at_work_does_not_do_it_twice(site: Site, tmp_path: Path) -> None:
    told, go = tmp_path / "told", tmp_path / "go"
    os.mkfifo(told)
    os.mkfifo(go)
    site.collector.does(f"echo > {told}; cat {go} > /dev/null")
    command_id = site.send()
    with site.collector.running() as process:
        told.read_text()
        process.kill()
    go.write_text("")
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} rejected 200"
    command = site.command(command_id)
    assert (command["status"], command["result_code"], command["attempt"]) == ("failed", "INTERRUPTED", 1)
    assert site.collector.ran == ["SET_FAN"]


@pytest.mark.slow
def test_the_documented_collector_whose_ack_came_too_late_says_it_again_and_does_nothing(site: Site) -> None:
    """Its notes say that the work was done under attempt 1, whose lease has run out before the ACK was sent."""
    command_id = site.send()
    device = Client(site.port, site.token)
    (command,) = device.ask("GET", "/api/edge/v1/commands/poll").body["commands"]
    done = {"status": "succeeded", "result_code": 0, "nonce": command["nonce"], "attempt": 1}
    entry = {"ack": done, "is_said": False, "expires_at": command["expires_at"]}
    site.collector.change_state(known={command_id: entry})
    # Answered when the lease and the back-off are over, with the second attempt; nobody takes this answer.
    assert device.ask("GET", "/api/edge/v1/commands/poll?wait=30").body["commands"][0]["attempt"] == 2
    device.close()
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} succeeded 409"
        assert next_line(process) == f"{command_id} succeeded 200"
    assert (site.command(command_id)["status"], site.command(command_id)["attempt"]) == ("succeeded", 3)
    assert site.collector.ran == []


@pytest.mark.slow
def test_the_documented_collector_defers_what_it_cannot_verify_until_it_has_the_new_secret(site: Site) -> None:
    rotated = site.operator.ask("POST", f"{ADMIN}/devices/1/rotate", {"what": "hmac_secret", "overlap_sec": 3600})
    command_id = site.send()
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} deferred 200"
    site.collector.change_state(hmac_secret=rotated.body["hmac_secret"])
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} succeeded 200"
    assert site.collector.ran == ["SET_FAN"]
    assert site.command(command_id)["retry_count"] == 0


@pytest.mark.slow
def test_the_documented_collector_stops_when_it_is_revoked(site: Site) -> None:
    site.operator.ask("POST", f"{ADMIN}/devices/1/revoke")
    with site.collector.running() as process:
        assert process.wait(PATIENCE_SECONDS) != 0
        assert process.stderr is not None
        assert "revoked" in process.stderr.read()
