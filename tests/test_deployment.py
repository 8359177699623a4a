"""The files to deploy from, and what the page about them says: settings exist, and a dump of PostgreSQL comes back."""

import os
import re
from contextlib import closing
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.database.postgres import PostgresEngine
from restante.identity import users
from restante.identity.callers import Role
from restante.server.settings import CONTRACT_SETTINGS, DECLARED
from tests.documented import DOCS, REPOSITORY, examples_of, paste
from tests.services.postgres import program

PAGE = DOCS / "deployment.md"
FILES = sorted(path for path in (REPOSITORY / "deploy").rglob("*") if path.is_file())
VARIABLES = {declared.variable for declared in DECLARED.values()} | {name.upper() for name in CONTRACT_SETTINGS}
FLAGS = {declared.flag for declared in DECLARED.values()}

_VARIABLE = re.compile(r"\b(RESTANTE_[A-Z_]+|REDIS_URL)\b")
_SERVE = re.compile(r"serve\b[^\n]*")
_FLAG = re.compile(r"--[a-z][a-z-]+")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_in_it_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    assert set(_VARIABLE.findall(text)) <= VARIABLES
    assert {flag for line in _SERVE.findall(text) for flag in _FLAG.findall(line)} <= FLAGS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_page_leads_to_it_or_to_what_uses_it(path: Path) -> None:
    name = str(path.relative_to(REPOSITORY))
    told = PAGE.read_text("utf-8") + (REPOSITORY / "deploy" / "docker-compose.yml").read_text("utf-8")
    assert name in told


@pytest.mark.slow
def test_a_dump_made_by_the_page_is_restored_by_it(
    tmp_path: Path,
    postgres_url: str,
    empty_postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dump, restore = examples_of(PAGE)
    monkeypatch.setenv("PATH", f"{program('pg_dump').parent}{os.pathsep}{os.environ['PATH']}")
    addresses = f"RESTANTE_DATABASE='{postgres_url}'\nRESTORED_DATABASE='{empty_postgres_url}'\n"
    with closing(Database(PostgresEngine(postgres_url))) as database:
        database.write_now(users.add, "kept@example.com", "x", Role.viewer)
        paste(tmp_path, addresses + dump.script)
        database.write_now(users.add, "lost@example.com", "x", Role.viewer)
    paste(tmp_path, addresses + restore.script)
    with closing(Database(PostgresEngine(empty_postgres_url))) as database:
        assert [user.email for user in database.read_now(users.list_all)] == ["kept@example.com"]
        added = database.write_now(users.add, "next@example.com", "x", Role.viewer)
        assert [user.id for user in database.read_now(users.list_all)][-1] == added
