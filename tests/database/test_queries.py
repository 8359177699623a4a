from pathlib import Path

import pytest

from restante.database.queries import Queries, numbered, queries_beside

SOURCE = """-- What this file is about.

-- name: find
-- Finds it.
SELECT 1

-- name: claim_batch
-- Takes some.
SELECT 2
-- name: claim_batch@postgres
-- Locks them, as that engine must.
SELECT 3
"""


def written(tmp_path: Path, source: str) -> Queries:
    path = tmp_path / "x.sql"
    path.write_text(source, encoding="utf-8")
    return queries_beside(str(tmp_path / "x.py"))


def test_queries_are_found_beside_the_module_by_name(tmp_path: Path) -> None:
    queries = written(tmp_path, SOURCE)
    assert queries.names() == ["claim_batch", "find"]
    assert queries.find.name == "find"
    assert queries.find.text == "-- Finds it.\nSELECT 1"


def test_an_engine_may_have_a_text_of_its_own(tmp_path: Path) -> None:
    claim = written(tmp_path, SOURCE).claim_batch
    assert claim.for_engine("postgres").endswith("SELECT 3")
    assert claim.for_engine("sqlite").endswith("SELECT 2")
    assert claim.text.endswith("SELECT 2")


def test_a_name_that_is_not_there_says_where_it_is_not(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match=r"x\.sql has no query named 'lost'"):
        _ = written(tmp_path, SOURCE).lost


@pytest.mark.parametrize(
    "source",
    [
        "-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name: a@postgres\nSELECT 2\n-- name: a@postgres\nSELECT 3\n",
        # Each of these would otherwise become part of the query above it, or vanish.
        "-- name: a\nSELECT 1\n-- name: B\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name: two words\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name:b\nSELECT 2\n",
        "-- name: a\nSELECT 1\n-- name: b@postgres\nSELECT 2\n",
    ],
)
def test_a_file_that_says_two_things_or_nothing_clear_is_refused(tmp_path: Path, source: str) -> None:
    with pytest.raises(ValueError, match=r"x\.sql"):
        written(tmp_path, source)


def test_names_may_have_digits_and_lines_may_end_in_blanks(tmp_path: Path) -> None:
    queries = written(tmp_path, "-- name: top_10 \nSELECT 10\n")
    assert queries.top_10.text == "SELECT 10"


def test_every_sql_file_of_the_product_can_be_read_and_says_what_each_query_is_for() -> None:
    source = Path(__file__).parents[2] / "src" / "restante"
    files = [path for path in source.rglob("*.sql") if path.parent.name != "migrations"]
    assert files
    for path in files:
        queries = Queries(path)
        for name in queries.names():
            text = getattr(queries, name).text
            assert text.startswith("-- "), f"{path.name}: {name} has no line saying what for"
            assert path.with_suffix(".py").exists()


@pytest.mark.parametrize(
    ("text", "said", "names"),
    [
        ("SELECT :b, :a, :b", "SELECT ?1, ?2, ?1", ("b", "a")),
        ("SELECT ':a' || :a -- :b\n", "SELECT ':a' || ?1 -- :b\n", ("a",)),
        ("SELECT \":a\", x::int, 'it''s :a' FROM y", "SELECT \":a\", x::int, 'it''s :a' FROM y", ()),
    ],
)
def test_parameters_are_numbered_where_their_names_first_stand(text: str, said: str, names: tuple[str, ...]) -> None:
    assert numbered(text, "?") == (said, names)
