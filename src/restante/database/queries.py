"""Named SQL: each `x.py` that uses the database has an `x.sql` beside it and loads it with `queries_beside`.

    -- name: claim_batch
    -- Claims the oldest due rows. (Every query has a comment that says what it is for.)
    UPDATE … RETURNING …

An engine that needs another text has a variant with the engine in its name (`-- name: claim_batch@postgres`); the
variant's comment says why.
"""

import re
from pathlib import Path
from typing import NamedTuple

_HEADER = re.compile(r"^-- name:(?P<label>.*)$", re.MULTILINE)
# A named parameter; strings, quoted names, comments and casts are skipped.
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::|:(?P<name>[a-z_][a-z0-9_]*)")
_NAME = re.compile(r" (?P<name>[a-z][a-z0-9_]*)(?:@(?P<engine>[a-z]+))?\s*")


class Query(NamedTuple):
    """One query. A NamedTuple because every run hashes it (`lru_cache`): tuples hash faster than dataclasses."""

    name: str
    text: str
    variants: tuple[tuple[str, str], ...] = ()

    def for_engine(self, engine: str) -> str:
        return next((text for name, text in self.variants if name == engine), self.text)


def number_parameters(text: str, sign: str) -> tuple[str, tuple[str, ...]]:
    """Replace named parameters by numbers, `?1` or `$1`. Returns the text, and the names in order of first use."""
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
        # Plain attributes are faster than __getattr__.
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
    """The queries by name. A malformed header is an error: it would become part of the query above it."""
    headers = list(_HEADER.finditer(source))
    ends = [*(header.start() for header in headers[1:]), len(source)]
    texts: dict[tuple[str, str | None], str] = {}
    for header, end in zip(headers, ends, strict=False):
        named = _NAME.fullmatch(header["label"])
        if named is None:
            raise ValueError(f"{path}: {header[0]!r} is not a valid query name")
        if (named["name"], named["engine"]) in texts:
            raise ValueError(f"{path}: {header[0]!r} is defined twice")
        texts[named["name"], named["engine"]] = source[header.end() : end].strip()
    for name, engine in texts:
        if (name, None) not in texts:
            raise ValueError(f"{path}: {name}@{engine} has no variant for the other engines")
    return {name: Query(name, text, _variants(texts, name)) for (name, engine), text in texts.items() if not engine}


def _variants(texts: dict[tuple[str, str | None], str], name: str) -> tuple[tuple[str, str], ...]:
    return tuple((engine, text) for (of, engine), text in texts.items() if of == name and engine)
