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

_HEADER = re.compile(r"^-- name: (?P<name>[a-z_]+)(?:@(?P<engine>[a-z]+))?$", re.MULTILINE)


class Query(NamedTuple):
    name: str
    text: str
    variants: tuple[tuple[str, str], ...] = ()

    def for_engine(self, engine: str) -> str:
        return next((text for name, text in self.variants if name == engine), self.text)


class Queries:
    """The queries of one .sql file, as attributes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queries = _parse(path.read_text(encoding="utf-8"), path)

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
    headers = list(_HEADER.finditer(source))
    texts: dict[str, str] = {}
    variants: dict[str, list[tuple[str, str]]] = {}
    for header, following in zip(headers, [*headers[1:], None], strict=True):
        text = source[header.end() : following.start() if following else len(source)].strip()
        name, engine = header["name"], header["engine"]
        if engine:
            variants.setdefault(name, []).append((engine, text))
        elif name in texts:
            raise ValueError(f"{path}: the query {name!r} is there twice")
        else:
            texts[name] = text
    return {name: Query(name, text, tuple(variants.get(name, ()))) for name, text in texts.items()}
