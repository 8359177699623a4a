"""Check the page about event polling: examples, the documented client, and every list."""

import re
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import fields

from restante.cli.database import open_embedded_database
from restante.database.database import Database
from restante.events import errors
from restante.events.inbox.poll import PollResponse
from restante.events.inbox.poll_schema import SetError, StrictPollBody
from restante.server.config.settings import DECLARATIONS
from restante.server.data_folder import DataFolder
from tests.documented import DOCS, README, blocks_of, check_examples, examples_of, next_line, running_program
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient
from tests.faults.server_process import TIMEOUT_SECONDS, prepare_data, running_server

PAGE = DOCS / "event-polling.md"
# The step of the tour that gets the client its token.
TOKEN_REQUEST = "/token"


@pytest.mark.slow
def test_examples_produce_the_documented_output(tmp_path: Path) -> None:
    tour = examples_of(README)
    token_step = next(number for number, example in enumerate(tour) if TOKEN_REQUEST in example.script)
    check_examples(tmp_path, PAGE, [tour[0], tour[token_step]])


def rows_under(title: str) -> list[list[str]]:
    section = PAGE.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows][1:]


def test_every_member_is_documented() -> None:
    members = [row[0].strip("`") for row in rows_under("What you send")]
    assert members == [field.encode_name for field in fields(StrictPollBody)]
    assert all(f"`{field.encode_name}`" in PAGE.read_text() for field in fields(SetError))
    members = [row[0].strip("`") for row in rows_under("What you get")]
    assert members == [field.encode_name for field in fields(PollResponse)]


def test_every_error_code_is_documented() -> None:
    source = Path(errors.__file__).read_text()
    codes = set(re.findall(r'"UK\.OBIE\.([A-Za-z.]+)"', source))
    rows = rows_under("Errors")
    assert {row[1].strip("`") for row in rows if row[1]} == codes
    short_codes = {row[1].strip("`"): row[2].strip("`") for row in rows if row[1]}
    assert short_codes == {code: errors.SHORT_CODES[code] for code in codes}
    assert all(HTTPStatus(int(row[0])) for row in rows)


def test_documented_limits_are_the_default_settings() -> None:
    for row in rows_under("Limits"):
        [name, *_] = re.findall(r"`(\w+)`", row[2])
        default = DECLARATIONS[name].default
        shown = {4_194_304: "4 MiB", 1_048_576: "1 MiB"}.get(default, f"{default:g}")
        assert row[1].split()[0] == shown.split()[0], name


class Served(NamedTuple):
    database: Database
    port: int
    customer: PollingClient


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    prepared = prepare_data(tmp_path / "data")
    with running_server(prepared.data) as server, open_embedded_database(DataFolder(prepared.data)) as database:
        yield Served(database, server.port, database.write_now(inbox_fixture.add_client))


@pytest.mark.slow
def test_documented_client_prints_and_acknowledges_events(served: Served, tmp_path: Path) -> None:
    [program] = blocks_of(PAGE, "python")
    file = tmp_path / "client.py"
    file.write_text(program)
    customer, database = served.customer, served.database
    with running_program(file, f"http://127.0.0.1:{served.port}", customer.token) as process:
        database.write_now(inbox_fixture.put_ready, customer.id, "a")
        assert next_line(process) == "a"
        database.write_now(inbox_fixture.put_ready, customer.id, "b")
        assert next_line(process) == "b"
        # The client acknowledged "a" in the poll that delivered "b".
        patience = threading.Event()
        for _ in range(int(TIMEOUT_SECONDS * 100)):
            if inbox_fixture.status_of(database, "a") == "acknowledged":
                break
            patience.wait(0.01)
        assert inbox_fixture.status_of(database, "a") == "acknowledged"
