"""Check the names in the pages: commands with their options, targets of make, paths, pictures, settings and roles."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from restante.cli.main import app
from restante.server.cluster.roles import ROLES
from restante.server.config.settings import declarations
from tests.documented import DOCS, REPOSITORY

PAGES = [
    *sorted(REPOSITORY.glob("*.md")),
    REPOSITORY / "bench" / "RESULTS.md",
    REPOSITORY / "client" / "README.md",
    REPOSITORY / "vectors" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]
TOP_FOLDERS = "bench|client|deploy|docs|requirements|scripts|src|tests|vectors"

_SHELL_BLOCK = re.compile(r"^```(?:console|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# The program at the beginning of a text, after a prompt, or by its path, up to the end of its simple command.
_CALL = re.compile(r"(?:^|\$ |\$\(|\| |exec restante |\.venv/bin/)restante ([a-z-][^|;&)#>]*)")

_PICTURE = re.compile(r'(?:src|srcset)="([^"]+)"|!\[[^\]]*\]\(([^)]+)\)')
_SETTING_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)?(?:docs/)?settings\.md\)")


def code_of(page: Path) -> Iterator[str]:
    """The lines of shell blocks, and the code within sentences."""
    text = page.read_text()
    for block in _SHELL_BLOCK.findall(text):
        yield from block.replace("\\\n", " ").splitlines()
    for span in re.findall(r"`([^`]+)`", _BLOCK.sub("", text)):
        yield " ".join(span.split())


def wrong_names(call: str) -> Iterator[str]:
    """The command or the options of a call that do not exist."""
    command: Any = get_command(app)
    words = call.split()
    while words and hasattr(command, "commands") and re.fullmatch("[a-z][a-z-]*", words[0]):
        if words[0] not in command.commands:
            yield words[0]
            return
        command = command.commands[words.pop(0)]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    flags = [word.strip("'\"[]().,").split("=")[0] for word in words if word.startswith("--")]
    yield from (flag for flag in flags if flag not in {*known, "--help"})


def test_wrong_names_in_calls_are_found() -> None:
    assert list(wrong_names("device list --overdue")) == []
    assert list(wrong_names("devices list")) == ["devices"]
    assert list(wrong_names("device list --late")) == ["--late"]


def test_every_command_and_option_exists() -> None:
    calls = [(page.name, call) for page in PAGES for code in code_of(page) for call in _CALL.findall(code)]
    assert [(*call, *wrong) for call in calls if (wrong := list(wrong_names(call[1])))] == []


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    calls = [(page.name, code) for page in PAGES for code in code_of(page)]
    named = {(page, target) for page, code in calls for target in re.findall(r"(?:^|[$ ] ?)make ([a-z-]+)", code)}
    assert named
    assert {(page, target) for page, target in named if target not in targets} == set()


def test_every_path_exists() -> None:
    codes = {(page.name, code) for page in PAGES for code in code_of(page)}
    paths = {each for each in codes if re.fullmatch(rf"(?:{TOP_FOLDERS})/[\w./@*-]+", each[1])}
    assert paths
    assert {each for each in paths if not list(REPOSITORY.glob(each[1].rstrip("/")))} == set()


def test_every_picture_exists() -> None:
    found = [(page, picture) for page in PAGES for pair in _PICTURE.findall(page.read_text()) for picture in pair]
    assert [(page.name, picture) for page, picture in found if not (page.parent / picture).exists()] == []


def test_every_linked_setting_exists() -> None:
    names = {declaration.name for declaration in declarations()}
    links = [(page.name, text) for page in PAGES for text in _SETTING_LINK.findall(page.read_text())]
    named = {(page, name) for page, text in links for name in re.findall(r"`([a-z_]+)`", text)}
    assert named
    assert {(page, name) for page, name in named if name not in names} == set()


def test_table_of_roles_is_complete() -> None:
    roles = (DOCS / "operations.md").read_text().split("| role |", 1)[1].split("\n\n", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", roles, re.MULTILINE) == list(ROLES)
