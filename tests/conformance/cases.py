"""What the cases of every protocol have in common: where they are read from, and how an answer is held against them.

A text that begins with `~` is a pattern for the whole of what is there. Places in a body are written with dots.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from tests.server.serving import WireAnswer

MISSING = "(nothing)"
_NAME = re.compile(r"\{(\w+)\}")


class NamedCase(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def why(self) -> str: ...


class CaseFile(Protocol):
    """Cases, and the settings under which they hold."""

    @property
    def case(self) -> "list[Any]": ...
    @property
    def settings(self) -> dict[str, Any]: ...


F = TypeVar("F", bound=CaseFile)


def read_files(folder: Path, kind: type[F]) -> dict[str, F]:
    """Every file of the folder by its name, checked for slips of the pen; every case says why, under its own name."""
    files = {}
    for path in sorted(folder.glob("*.toml")):
        file = files[path.stem] = msgspec.convert(tomllib.loads(path.read_text("utf-8")), kind)
        names = [case.name for case in file.case]
        assert len(names) == len(set(names)), f"{path}: names are not unique"
        assert all(case.why for case in file.case), f"{path}: a case does not say why"
    assert files, f"no cases in {folder}"
    return files


def filled(value: Any, bound: dict[str, Any]) -> Any:
    """The value with what its names stand for; a text that is one name becomes that thing, a number for one."""
    match value:
        case str():
            whole = _NAME.fullmatch(value)
            if whole and whole[1] in bound:
                return bound[whole[1]]
            return _NAME.sub(lambda name: str(bound.get(name[1], name[0])), value)
        case list():
            return [filled(each, bound) for each in value]
        case dict():
            return {key: filled(each, bound) for key, each in value.items()}
    return value


def found_at(body: Any, where: str) -> Any:
    """What stands at `commands.0.nonce`, or that nothing does; `#` is how many there are."""
    for part in where.split("."):
        if part == "#":
            body = len(body)
        elif isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else MISSING
        elif isinstance(body, dict):
            body = body.get(part, MISSING)
        else:
            return MISSING
    return body


def check_value(expected: Any, given: Any, where: str) -> None:
    if isinstance(expected, str) and expected.startswith("~"):
        assert re.fullmatch(expected[1:], str(given), re.DOTALL), f"{where}: {given!r} is not {expected[1:]}"
    else:
        assert given == expected, f"{where}: {given!r}"
        assert type(given) is type(expected), where


def check_headers(answer: WireAnswer, expected: dict[str, str], absent: list[str]) -> None:
    for name, value in expected.items():
        given = answer.header(name.encode())
        assert given is not None, name
        check_value(value, given.decode("latin-1"), name)
    assert [name for name in absent if answer.header(name.encode()) is not None] == []


def body_of(answer: WireAnswer) -> Any:
    return msgspec.json.decode(answer.body) if answer.body else None
