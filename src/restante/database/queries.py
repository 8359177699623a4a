"""Named SQL: each `x.py` that talks to the database has an `x.sql` beside it, and loads it with `queries_beside`.

    -- name: claim_batch
    -- Takes the oldest rows that are due, one line saying what for.
    UPDATE … RETURNING …

Where one engine needs a second text, the name carries the engine (`-- name: claim_batch@postgres`) and the comment
says why.
"""

import re
from pathlib import Path
from typing import NamedTuple

_HEADER = re.compile(r"^-- name:(?P<said>.*)$", re.MULTILINE)
# A named parameter; strings, quoted names, comments and casts are passed over.
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::|:(?P<name>[a-z_][a-z0-9_]*)")
_NAME = re.compile(r" (?P<name>[a-z][a-z0-9_]*)(?:@(?P<engine>[a-z]+))?\s*")


class Query(NamedTuple):
    name: str
    text: str
    variants: tuple[tuple[str, str], ...] = ()

    def for_engine(self, engine: str) -> str:
        return next((text for name, text in self.variants if name == engine), self.text)


def numbered(text: str, sign: str) -> tuple[str, tuple[str, ...]]:
    """The text with numbered parameters, `?1` or `$1`, and their names in the order in which they first stand there."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        name = found["name"]
        return found[0] if name is None else f"{sign}{numbers.setdefault(name, len(numbers) + 1)}"

    return _PARAMETER.sub(number, text), tuple(numbers)


class Queries:
    """The queries of one .sql file, as attributes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queries = _parse(path.read_text(encoding="utf-8"), path)
        # Found as plain attributes, which is quicker than being asked for the name each time.
        self.__dict__.update(self._queries)

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"{self._path.name} has no query named {name!r}") from None

    def names(self) -> list[str]:
        return sorted(self._queries)


def queries_beside(python_file: str) -> Queries:
    return Queries(Path(python_file).with_suffix(".sql"))


def _parse(source: str, path: Path) -> dict[str, Query]:
    """The queries by name. What cannot be understood is refused: it would become part of the query above it."""
    headers = list(_HEADER.finditer(source))
    ends = [*(header.start() for header in headers[1:]), len(source)]
    texts: dict[tuple[str, str | None], str] = {}
    for header, end in zip(headers, ends, strict=False):
        named = _NAME.fullmatch(header["said"])
        if named is None:
            raise ValueError(f"{path}: {header[0]!r} names no query")
        if (named["name"], named["engine"]) in texts:
            raise ValueError(f"{path}: {header[0]!r} is there twice")
        texts[named["name"], named["engine"]] = source[header.end() : end].strip()
    for name, engine in texts:
        if (name, None) not in texts:
            raise ValueError(f"{path}: {name}@{engine} has no text for other engines")
    return {name: Query(name, text, _variants(texts, name)) for (name, engine), text in texts.items() if not engine}


def _variants(texts: dict[tuple[str, str | None], str], name: str) -> tuple[tuple[str, str], ...]:
    return tuple((engine, text) for (of, engine), text in texts.items() if of == name and engine)
