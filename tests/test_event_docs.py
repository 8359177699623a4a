"""What is written about event polling holds: examples, the client to start from, and every list."""

import re
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import fields

from restante.cli.opening import opened_in
from restante.database.database import Database
from restante.events import wire
from restante.events.poll import PollAnswer
from restante.events.poll_body import SetError, StrictPollBody
from restante.server.data_folder import DataFolder
from restante.server.settings import DECLARED
from tests.documented import DOCS, README, blocks_of, check_answers, examples_of, next_line, program_at_work
from tests.events import bank
from tests.events.bank import Customer
from tests.faults.server_process import PATIENCE_SECONDS, prepare, running

PAGE = DOCS / "event-polling.md"
# The tour lets you in and gets the client its token.
TOKEN_MADE = "/token"


@pytest.mark.slow
def test_the_examples_answer_what_the_page_says(tmp_path: Path) -> None:
    tour = examples_of(README)
    with_token = next(number for number, example in enumerate(tour) if TOKEN_MADE in example.script)
    check_answers(tmp_path, PAGE, [tour[0], tour[with_token]])


def rows_under(title: str) -> list[list[str]]:
    section = PAGE.read_text().split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows][1:]


def test_every_member_is_explained() -> None:
    told = [row[0].strip("`") for row in rows_under("What you send")]
    assert told == [field.encode_name for field in fields(StrictPollBody)]
    assert all(f"`{field.encode_name}`" in PAGE.read_text() for field in fields(SetError))
    told = [row[0].strip("`") for row in rows_under("What you get")]
    assert told == [field.encode_name for field in fields(PollAnswer)]


def test_every_error_code_is_explained() -> None:
    source = Path(wire.__file__).read_text()
    codes = set(re.findall(r'"UK\.OBIE\.([A-Za-z.]+)"', source))
    rows = rows_under("Refusals")
    assert {row[1].strip("`") for row in rows if row[1]} == codes
    assert all(HTTPStatus(int(row[0])) for row in rows)


def test_the_settings_it_names_are_there_and_the_defaults_are_theirs() -> None:
    for row in rows_under("Limits"):
        [name, *_] = re.findall(r"`(\w+)`", row[2])
        default = DECLARED[name].default
        shown = {4_194_304: "4 MiB", 1_048_576: "1 MiB"}.get(default, f"{default:g}")
        assert row[1].split()[0] == shown.split()[0], name


class Served(NamedTuple):
    database: Database
    port: int
    customer: Customer


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    prepared = prepare(tmp_path / "data")
    with running(prepared.data) as server, opened_in(DataFolder(prepared.data)) as database:
        yield Served(database, server.port, database.write_now(bank.add_client))


@pytest.mark.slow
def test_the_documented_client_prints_what_it_is_handed_and_acknowledges_it(served: Served, tmp_path: Path) -> None:
    [program] = blocks_of(PAGE, "python")
    file = tmp_path / "client.py"
    file.write_text(program)
    customer, database = served.customer, served.database
    with program_at_work(file, f"http://127.0.0.1:{served.port}", customer.token) as process:
        database.write_now(bank.put_ready, customer.id, "a")
        assert next_line(process) == "a"
        database.write_now(bank.put_ready, customer.id, "b")
        assert next_line(process) == "b"
        # It says of "a" that it has it when it asks for more, which it did before it was handed "b".
        patience = threading.Event()
        for _ in range(int(PATIENCE_SECONDS * 100)):
            if bank.status_of(database, "a") == "acknowledged":
                break
            patience.wait(0.01)
        assert bank.status_of(database, "a") == "acknowledged"
