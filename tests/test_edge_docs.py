"""Check the pages about edge commands: examples, signatures, the documented collector, and every list."""

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
from restante.commands import errors
from restante.commands.acks.acks import REPLAYED
from restante.commands.audit.audit_listing import EVENTS
from restante.commands.dispatch.poll_response import CommandPollResponse, PolledCommand
from restante.commands.dispatch.rate_limits import RateRules
from restante.commands.lifecycle.command_types import COMMAND_TYPES
from restante.commands.lifecycle.explanation import WaitingFor
from restante.commands.telemetry.safety_events import ACTIONS
from restante.core.commands.ack import STATUSES
from restante.core.commands.canonical import SIGNED_FIELDS
from restante.core.commands.command_states import Event, State, diagram
from restante.core.errors import RestanteError
from restante.server.config.settings import CONTRACT_SETTINGS, DECLARATIONS
from restante.server.monitoring.metrics import COMMANDS_METRICS
from tests.documented import (
    DOCS,
    README,
    REPOSITORY,
    blocks_of,
    check_examples,
    examples_of,
    next_line,
    running_program,
)
from tests.faults.client import Client
from tests.faults.server_process import TIMEOUT_SECONDS, prepare_data, running_server

COLLECTOR_PAGE = DOCS / "edge-commands.md"
OPERATOR_PAGE = DOCS / "edge-operations.md"
VECTORS = json.loads((REPOSITORY / "vectors" / "command-signatures.json").read_text(encoding="utf-8"))
ADMIN = "/api/edge/v1/admin"
# Errors of the other protocols and of the server itself.
OTHER_PACKAGES = ("restante.updates", "restante.events", "restante.server")

_EVENT = re.compile(r"(?:ack|chain|collector|command|miner|rule|site|zone)\.[a-z_]+")

# The pages tell the reader to start the server with these settings.
FLAGS = ("--enable-command-signature", "--commands-needing-approval", "DEVICE_REBOOT")


def rows_of(page: Path, title: str) -> list[list[str]]:
    """Return the cells of the table rows under a title, without separator rows."""
    section = page.read_text().split(f"# {title}\n", 1)[1].split("\n#", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [row for row in rows if not set(row[0]) <= {"-"}]


def words_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


@pytest.mark.slow
@pytest.mark.parametrize("page", [COLLECTOR_PAGE, OPERATOR_PAGE], ids=lambda page: page.stem)
def test_examples_produce_the_documented_output(page: Path, tmp_path: Path) -> None:
    tour = examples_of(README)
    site_created = next(example for example in tour if "/admin/sites" in example.script)
    check_examples(tmp_path, page, [tour[0], site_created], *FLAGS)


def test_state_diagram_matches_the_state_table() -> None:
    assert blocks_of(COLLECTOR_PAGE, "mermaid") == [diagram()]


def test_every_state_is_documented() -> None:
    assert words_in(str(rows_of(COLLECTOR_PAGE, "The life of a command"))) >= set(State)


def test_every_error_code_is_documented_with_its_status() -> None:
    named = {(row[0], row[1].strip("`")) for row in rows_of(COLLECTOR_PAGE, "Errors")[1:]}
    assert named == {("200", REPLAYED), *error_codes()}


def error_codes() -> set[tuple[str, str]]:
    """Return every error code of this protocol with its status."""
    for module in pkgutil.walk_packages(restante.__path__, "restante."):
        if module.name.startswith(("restante.commands.", "restante.web.")):
            importlib.import_module(module.name)
    own, plain = set(), set()
    for kind in error_kinds(RestanteError):
        code = getattr(kind, "code", None)
        if kind is RestanteError or kind.__module__.startswith(OTHER_PACKAGES):
            continue
        if code is not None:
            own.add((str(kind.status), code))
        else:
            plain.add(
                (
                    str(kind.status),
                    errors.error_code(type("Plain", (RestanteError,), {"status": kind.status})()),
                )
            )
    return own | plain


def error_kinds(kind: type[RestanteError]) -> Iterator[type[RestanteError]]:
    yield kind
    for each in kind.__subclasses__():
        # Skip errors defined by tests.
        if each.__module__.startswith("restante."):
            yield from error_kinds(each)


def test_every_field_of_a_poll_response_is_documented() -> None:
    cells = rows_of(COLLECTOR_PAGE, "Polling")
    explained = {field: row[1] for row in cells if len(row) == 3 for field in words_in(row[0])}
    assert set(explained) >= set(PolledCommand.__struct_fields__)
    assert {field for field, signed in explained.items() if signed == "yes"} == set(SIGNED_FIELDS)
    words = words_in(COLLECTOR_PAGE.read_text())
    assert {field for field in CommandPollResponse.__struct_fields__ if field != "commands"} <= words
    assert {each.legacy_name for each in COMMAND_TYPES.values()} <= words


def test_every_ack_status_is_documented() -> None:
    assert words_in(str(rows_of(COLLECTOR_PAGE, "Acknowledging"))) >= set(STATUSES)


def test_documented_rate_limits_are_the_defaults() -> None:
    rules = RateRules()
    limits = {**{f"`{name}`": limit for name, limit in rules.limits.items()}, "all others": rules.default}
    assert rows_of(COLLECTOR_PAGE, "Rate limits")[1:] == [
        [name, str(limit.limit), str(limit.window_seconds)] for name, limit in limits.items()
    ]


def test_every_safety_action_is_documented() -> None:
    assert words_in(COLLECTOR_PAGE.read_text()) >= set(ACTIONS)


def test_every_command_type_is_documented_with_aliases_and_parameters() -> None:
    rows = {row[0].strip("`"): row for row in rows_of(OPERATOR_PAGE, "Types and parameters")[1:]}
    assert rows.keys() == COMMAND_TYPES.keys()
    for name, kind in COMMAND_TYPES.items():
        assert words_in(rows[name][1]) == set(kind.aliases)
        assert words_in(rows[name][2]) | {"reason"} >= set(kind.schema.__struct_fields__)


def test_every_reason_for_waiting_is_documented() -> None:
    rows = rows_of(OPERATOR_PAGE, "Why is it not there yet?")[1:]
    assert set().union(*(words_in(row[0]) for row in rows)) == set(get_args(WaitingFor))


def test_every_audit_event_is_documented() -> None:
    named = {word for row in rows_of(OPERATOR_PAGE, "Audit trail") for word in words_in(row[-1]) if _EVENT.match(word)}
    assert named == {f"command.{event}" for event in Event} | set(audit_events_in_the_source())
    assert named <= set(EVENTS)


def audit_events_in_the_source() -> Iterator[str]:
    for folder in ("commands", "cli"):
        for module in (REPOSITORY / "src" / "restante" / folder).rglob("*.py"):
            yield from re.findall(rf'"({_EVENT.pattern})"', module.read_text())


def test_every_metric_is_documented() -> None:
    rows = {row[0].strip("`").removesuffix("_total"): row for row in rows_of(OPERATOR_PAGE, "Metrics")[1:]}
    assert rows.keys() == COMMANDS_METRICS.keys()
    for name, meaning in COMMANDS_METRICS.items():
        assert words_in(rows[name][1]) == set(meaning.labels)


def test_documented_settings_exist_and_include_the_contract() -> None:
    named = set().union(*(words_in(row[0]) for row in rows_of(OPERATOR_PAGE, "Settings that matter")[1:]))
    assert CONTRACT_SETTINGS <= named <= DECLARATIONS.keys()


@pytest.fixture(scope="module")
def signatures() -> dict[str, Any]:
    """The definitions of the page's first program."""
    defined: dict[str, Any] = {"__name__": "signatures"}
    exec(blocks_of(COLLECTOR_PAGE, "python")[0], defined)
    return defined


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_documented_verification_accepts_the_vectors(vector: dict[str, Any], signatures: dict[str, Any]) -> None:
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
    """The collector of the page with its state file; its program records each run."""

    def __init__(self, folder: Path, port: int, state: dict[str, Any]) -> None:
        self._folder = folder
        for name, text in zip(("signatures.py", "collector.py"), blocks_of(COLLECTOR_PAGE, "python"), strict=True):
            (folder / name).write_text(text)
        self._server = f"http://127.0.0.1:{port}"
        self.change_state(**state)
        self.set_program("exit 0")

    def change_state(self, **changed: object) -> None:
        file = self._folder / "state.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(before | changed))

    def set_program(self, script: str) -> None:
        """Replace the script that the program runs after it has recorded its run."""
        program = self._folder / "program"
        program.write_text(f'#!/bin/sh\necho "$1" >> ran\n{script}\n')
        program.chmod(0o700)

    @property
    def ran(self) -> list[str]:
        file = self._folder / "ran"
        return file.read_text().split() if file.exists() else []

    def running(self) -> AbstractContextManager["subprocess.Popen[str]"]:
        return running_program(self._folder / "collector.py", self._server, "state.json", "./program")


class Site(NamedTuple):
    operator: Client
    port: int
    collector: DocumentedCollector
    token: str

    def send(self, **more: object) -> str:
        body = {"site_id": 1, "miner_id": 1, "command_type": "SET_FAN", "params": {"speed": 80}, **more}
        made = self.operator.request("POST", f"{ADMIN}/commands", body)
        assert made.status == 201, made.body
        return str(made.body["command_id"])

    def command(self, command_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.operator.request("GET", f"{ADMIN}/commands/{command_id}").body
        return shown


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server with short leases and back-offs, a site with one miner, and the page's collector for it."""
    prepared = prepare_data(tmp_path / "data")
    short_times = ("--command-lease-duration-sec", "1", "--default-retry-backoff-sec", "1")
    with running_server(prepared.data, *FLAGS, *short_times, "--require-ack-nonce") as server:
        operator = Client(server.port, prepared.key)
        operator.request("POST", f"{ADMIN}/sites", {"name": "north"})
        operator.request("POST", f"{ADMIN}/miners", {"site_id": 1, "name": "shelf 1"})
        added = operator.request("POST", f"{ADMIN}/devices", {"site_id": 1, "device_name": "roof"}).body
        state = {"token": added["token"], "hmac_secret": added["hmac_secret"]}
        folder = tmp_path / "collector"
        folder.mkdir()
        yield Site(operator, server.port, DocumentedCollector(folder, server.port, state), added["token"])
        operator.close()


@pytest.mark.slow
def test_documented_collector_runs_commands_and_acknowledges_them(site: Site) -> None:
    with site.collector.running() as process:
        first = site.send()
        assert next_line(process) == f"{first} succeeded 200"
        second = site.send(command_type="POWER_MODE", params={"mode": "LOW"})
        assert next_line(process) == f"{second} succeeded 200"
    assert site.collector.ran == ["SET_FAN", "POWER_MODE"]
    assert [site.command(each)["status"] for each in (first, second)] == ["succeeded", "succeeded"]


@pytest.mark.slow
def test_documented_collector_retries_failed_command(site: Site) -> None:
    site.collector.set_program("exit 7")
    command_id = site.send(max_retries=1)
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} failed 200"
        assert next_line(process) == f"{command_id} failed 200"
    command = site.command(command_id)
    assert (command["status"], command["result_code"], command["attempt"]) == ("failed", "7", 2)
    assert site.collector.ran == ["SET_FAN", "SET_FAN"]


@pytest.mark.slow
def test_documented_collector_killed_during_work_does_not_repeat_it(site: Site, tmp_path: Path) -> None:
    started, proceed = tmp_path / "started", tmp_path / "proceed"
    os.mkfifo(started)
    os.mkfifo(proceed)
    site.collector.set_program(f"echo > {started}; cat {proceed} > /dev/null")
    command_id = site.send()
    with site.collector.running() as process:
        started.read_text()
        process.kill()
    proceed.write_text("")
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} rejected 200"
    command = site.command(command_id)
    assert (command["status"], command["result_code"], command["attempt"]) == ("failed", "INTERRUPTED", 1)
    assert site.collector.ran == ["SET_FAN"]


@pytest.mark.slow
def test_documented_collector_resends_late_ack_without_running_again(site: Site) -> None:
    """Its records say that the work was done under attempt 1, whose lease ended before the ACK was sent."""
    command_id = site.send()
    device = Client(site.port, site.token)
    (command,) = device.request("GET", "/api/edge/v1/commands/poll").body["commands"]
    done = {"status": "succeeded", "result_code": 0, "nonce": command["nonce"], "attempt": 1}
    entry = {"ack": done, "is_sent": False, "expires_at": command["expires_at"]}
    site.collector.change_state(known={command_id: entry})
    # Returns the second attempt when the lease and the back-off are over; this response is not used.
    assert device.request("GET", "/api/edge/v1/commands/poll?wait=30").body["commands"][0]["attempt"] == 2
    device.close()
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} succeeded 409"
        assert next_line(process) == f"{command_id} succeeded 200"
    assert (site.command(command_id)["status"], site.command(command_id)["attempt"]) == ("succeeded", 3)
    assert site.collector.ran == []


@pytest.mark.slow
def test_documented_collector_defers_commands_until_it_has_the_new_secret(site: Site) -> None:
    rotated = site.operator.request("POST", f"{ADMIN}/devices/1/rotate", {"what": "hmac_secret", "overlap_sec": 3600})
    command_id = site.send()
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} deferred 200"
    site.collector.change_state(hmac_secret=rotated.body["hmac_secret"])
    with site.collector.running() as process:
        assert next_line(process) == f"{command_id} succeeded 200"
    assert site.collector.ran == ["SET_FAN"]
    assert site.command(command_id)["retry_count"] == 0


@pytest.mark.slow
def test_documented_collector_stops_when_it_is_revoked(site: Site) -> None:
    site.operator.request("POST", f"{ADMIN}/devices/1/revoke")
    with site.collector.running() as process:
        assert process.wait(TIMEOUT_SECONDS) != 0
        assert process.stderr is not None
        assert "revoked" in process.stderr.read()
