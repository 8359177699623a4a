"""The schema that the conformance cases of all protocols share, reading case files, and checking responses.

A case file is TOML: the settings of the server, and cases with a name, the rule that they prove (`why`) and one or more
steps. Each protocol extends `Case`, `Step` and `Expected` with its own fields. A text that begins with `~` is a regular
expression for the whole value. `{name}` stands for a value that the fixture provides or a step has saved. Positions in
a body are written with dots: `commands.0.nonce`.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tests.server.live_server import RawResponse

MISSING = "(missing)"
_NAME = re.compile(r"\{(\w+)\}")


class Expected(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The expected response."""

    status: int = 200
    headers: dict[str, str] = {}
    # Headers that must not be there.
    absent: list[str] = []
    text: str | None = None
    json: Any = None
    # Parts of a JSON body: position and expected value.
    has: dict[str, Any] = {}
    # Positions with a null, which TOML cannot express.
    null: list[str] = []
    # Positions that must not exist.
    lacks: list[str] = []


class Step(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One step of a case, usually a request."""

    times: int = 1

    def is_request(self) -> bool:
        return True

    def uses_fast_lane(self) -> bool:
        """Whether the fast lane must answer the request; otherwise it must not."""
        return False


class Case(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def why(self) -> str: ...
    def steps(self) -> Sequence[Any]: ...


C = TypeVar("C", bound=Case)
S = TypeVar("S", bound=Step)


class SingleStepCase(Step, forbid_unknown_fields=True, kw_only=True):
    """A case that is its own only step."""

    name: str
    why: str

    def steps(self) -> Sequence[Any]:
        return [self]


class MultiStepCase(msgspec.Struct, Generic[S], forbid_unknown_fields=True, kw_only=True):
    name: str
    why: str
    step: list[S]

    def steps(self) -> Sequence[S]:
        return self.step


class CaseFile(msgspec.Struct, Generic[C], forbid_unknown_fields=True):
    """Cases, and the settings of the server that they need."""

    case: list[C]
    settings: dict[str, Any] = {}


def read_files(folder: Path, file_type: type[CaseFile[C]]) -> dict[str, CaseFile[C]]:
    """Read and validate all case files of the folder, by file name."""
    files: dict[str, CaseFile[C]] = {}
    for path in sorted(folder.glob("*.toml")):
        file = files[path.stem] = msgspec.convert(tomllib.loads(path.read_text("utf-8")), file_type)
        names = [case.name for case in file.case]
        assert len(names) == len(set(names)), f"{path}: names are not unique"
        assert all(case.why for case in file.case), f"{path}: a case does not say why"
    assert files, f"no cases in {folder}"
    return files


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """The value with `{name}` replaced; a text that is only one name becomes its value, for example a number."""
    match value:
        case str():
            whole = _NAME.fullmatch(value)
            if whole and whole[1] in names:
                return names[whole[1]]
            return _NAME.sub(lambda name: str(names.get(name[1], name[0])), value)
        case list():
            return [filled(each, names) for each in value]
        case dict():
            return {key: filled(each, names) for key, each in value.items()}
    return value


def value_at(body: Any, position: str) -> Any:
    """The value at a position such as `commands.0.nonce`, or MISSING; `#` is the number of items."""
    for part in position.split("."):
        if part == "#":
            body = len(body)
        elif isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else MISSING
        elif isinstance(body, dict):
            body = body.get(part, MISSING)
        else:
            return MISSING
    return body


def check_response(expected: Expected, response: RawResponse, names: Mapping[str, Any]) -> None:
    """Check all that the cases of every protocol can expect of a response."""
    assert response.status == expected.status, response.body
    check_headers(response, filled(expected.headers, names), expected.absent)
    if expected.text is not None:
        check_value(filled(expected.text, names), response.body.decode(), "the body")
    body = body_of(response)
    if expected.json is not None:
        assert body == filled(expected.json, names)
    for position, value in expected.has.items():
        check_value(filled(value, names), value_at(body, position), position)
    assert [position for position in expected.null if value_at(body, position) is not None] == []
    assert [position for position in expected.lacks if value_at(body, position) != MISSING] == []


def check_headers(response: RawResponse, expected: dict[str, str], absent: list[str]) -> None:
    for name, value in expected.items():
        actual = response.header(name.encode())
        assert actual is not None, name
        check_value(value, actual.decode("latin-1"), name)
    assert [name for name in absent if response.header(name.encode()) is not None] == []


def check_value(expected: Any, actual: Any, position: str) -> None:
    if isinstance(expected, str) and expected.startswith("~"):
        assert re.fullmatch(expected[1:], str(actual), re.DOTALL), f"{position}: {actual!r} is not {expected[1:]}"
    else:
        assert actual == expected, f"{position}: {actual!r}"
        assert type(actual) is type(expected), position


def body_of(response: RawResponse) -> Any:
    """The decoded JSON body, or None for a response with another body or none."""
    media_type = (response.header(b"content-type") or b"").partition(b";")[0]
    return msgspec.json.decode(response.body) if response.body and media_type == b"application/json" else None
