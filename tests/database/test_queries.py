from pathlib import Path

import pytest

from restante.database.queries import Queries, number_parameters, queries_beside

SOURCE = """-- A comment about the whole file.

-- name: find
-- Finds it.
SELECT 1

-- name: claim_batch
-- Claims some.
SELECT 2
-- name: claim_batch@postgres
-- Locks them, which that engine needs.
SELECT 3
"""


def written(tmp_path: Path, source: str) -> Queries:
    path = tmp_path / "x.sql"
    path.write_text(source, encoding="utf-8")
    return queries_beside(str(tmp_path / "x.py"))


def test_queries_beside_a_module_are_found_by_name(tmp_path: Path) -> None:
    queries = written(tmp_path, SOURCE)
    assert queries.names() == ["claim_batch", "find"]
    assert queries.find.name == "find"
    assert queries.find.text == "-- Finds it.\nSELECT 1"


def test_engine_may_have_its_own_variant(tmp_path: Path) -> None:
    claim = written(tmp_path, SOURCE).claim_batch
    assert claim.for_engine("postgres").endswith("SELECT 3")
    assert claim.for_engine("sqlite").endswith("SELECT 2")
    assert claim.text.endswith("SELECT 2")


def test_unknown_name_raises_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match=r"x\.sql has no query named 'lost'"):
        _ = written(tmp_path, SOURCE).lost


@pytest.mark.parametrize(
    "source",
    [
        "-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name: a@postgres\nSELECT 2\n-- name: a@postgres\nSELECT 3\n",
        # Each of these would otherwise become part of the query above it, or be lost.
        "-- name: a\nSELECT 1\n-- name: B\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name: two words\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name:b\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name: b@postgres\nSELECT 2\n",
    ],
)
def test_duplicate_or_malformed_names_are_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match=r"x\.sql"):
        written(tmp_path, source)


def test_names_may_have_digits_and_trailing_blanks(tmp_path: Path) -> None:
    queries = written(tmp_path, "-- name: top_10 \nSELECT 10\n")
    assert queries.top_10.text == "SELECT 10"


def test_every_query_of_the_product_has_a_comment() -> None:
    source = Path(__file__).parents[2] / "src" / "restante"
    files = [path for path in source.rglob("*.sql") if path.parent.name != "migrations"]
    assert files
    for path in files:
        queries = Queries(path)
        for name in queries.names():
            text = getattr(queries, name).text
            assert text.startswith("-- "), f"{path.name}: {name} has no comment"
            assert path.with_suffix(".py").exists()


@pytest.mark.parametrize(
    ("text", "expected", "names"),
    [
        ("SELECT :b, :a, :b", "SELECT ?1, ?2, ?1", ("b", "a")),
        ("SELECT ':a' || :a -- :b\n", "SELECT ':a' || ?1 -- :b\n", ("a",)),
        ("SELECT \":a\", x::int, 'it''s :a' FROM y", "SELECT \":a\", x::int, 'it''s :a' FROM y", ()),
    ],
)
def test_parameters_are_numbered_by_first_use(text: str, expected: str, names: tuple[str, ...]) -> None:
    assert number_parameters(text, "?") == (expected, names)
