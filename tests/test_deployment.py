"""Check the deployment files and their page: the settings exist, and a documented dump can be restored."""

import os
import re
from contextlib import closing
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.identity.callers import Role
from restante.identity.people import users
from restante.server.config.settings import CONTRACT_SETTINGS, DECLARATIONS
from tests.defaults import new_postgres_engine
from tests.documented import DOCS, REPOSITORY, examples_of, run_script
from tests.services.processes import program

PAGE = DOCS / "deployment.md"
FILES = sorted(path for path in (REPOSITORY / "deploy").rglob("*") if path.is_file())
VARIABLES = {declared.variable for declared in DECLARATIONS.values()} | {name.upper() for name in CONTRACT_SETTINGS}
FLAGS = {declared.flag for declared in DECLARATIONS.values()}

_VARIABLE = re.compile(r"\b(RESTANTE_[A-Z_]+|REDIS_URL)\b")
_SERVE = re.compile(r"serve\b[^\n]*")
_FLAG = re.compile(r"--[a-z][a-z-]+")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_in_deployment_file_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    assert set(_VARIABLE.findall(text)) <= VARIABLES
    assert {flag for line in _SERVE.findall(text) for flag in _FLAG.findall(line)} <= FLAGS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_deployment_file_is_referenced(path: Path) -> None:
    name = str(path.relative_to(REPOSITORY))
    references = PAGE.read_text("utf-8") + (REPOSITORY / "deploy" / "docker-compose.yml").read_text("utf-8")
    assert name in references


@pytest.mark.slow
def test_documented_dump_can_be_restored(
    tmp_path: Path,
    postgres_url: str,
    empty_postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dump, restore = examples_of(PAGE)
    monkeypatch.setenv("PATH", f"{Path(program('pg_dump')).parent}{os.pathsep}{os.environ['PATH']}")
    addresses = f"RESTANTE_DATABASE='{postgres_url}'\nRESTORED_DATABASE='{empty_postgres_url}'\n"
    with closing(Database(new_postgres_engine(postgres_url))) as database:
        database.write_now(users.add, "kept@example.com", "x", Role.viewer)
        run_script(tmp_path, addresses + dump.script)
        database.write_now(users.add, "lost@example.com", "x", Role.viewer)
    run_script(tmp_path, addresses + restore.script)
    with closing(Database(new_postgres_engine(empty_postgres_url))) as database:
        assert [user.email for user in database.read_now(users.list_all)] == ["kept@example.com"]
        added = database.write_now(users.add, "next@example.com", "x", Role.viewer)
        assert [user.id for user in database.read_now(users.list_all)][-1] == added
