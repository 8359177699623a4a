import json
from pathlib import Path

import pytest

from restante.database.engine import Engine
from restante.database.migrate import migrate
from restante.database.postgres.dialect import Statement, translate_query, translate_schema
from restante.database.postgres.engine import PostgresEngine
from restante.database.queries import Queries, Query
from restante.database.sqlite import SqliteEngine
from tests.defaults import new_postgres_engine

SOURCE = Path(__file__).parents[3] / "src" / "restante"
SQL_FILES = sorted(SOURCE.rglob("*.sql"))
assert SQL_FILES
# Queries about SQLite itself.
SQLITE_ONLY = {
    ("checks.sql", "quick_check"),
    ("checks.sql", "journal_mode"),
    ("copy_tables.sql", "columns"),
    ("copy_tables.sql", "references"),
    ("copy_tables.sql", "add_counter"),
}
# Templates for external databases of any kind.
NOT_FOR_ENGINES = {"external_outbox.sql"}
# The column types, under the names that the migrations use.
COLUMNS_OF_POSTGRES = Query(
    "columns",
    "SELECT table_name, column_name, CASE data_type WHEN 'bigint' THEN 'INTEGER' WHEN 'bytea' THEN 'BLOB'"
    " WHEN 'double precision' THEN 'REAL' WHEN 'text' THEN 'TEXT' ELSE data_type END AS type"
    " FROM information_schema.columns WHERE table_schema = 'public'",
)
COLUMNS_OF_SQLITE = Query(
    "columns",
    "SELECT t.name AS table_name, c.name AS column_name, REPLACE(c.type, 'BIGINT', 'INTEGER') AS type"
    " FROM sqlite_master t JOIN pragma_table_info(t.name) c"
    " WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'",
)


def text_of(source: str) -> str:
    return translate_query(Query("q", source)).text


def test_parameters_are_numbered_by_name() -> None:
    statement = translate_query(Query("q", "SELECT :b, :a_1 FROM t WHERE x = :b AND (a, b) > (:a_1,:c)"))
    assert statement.text == "SELECT $1, $2 FROM t WHERE x = $1 AND (a, b) > ($2,$3)"
    assert statement.names == ("b", "a_1", "c")


@pytest.mark.parametrize(
    "source",
    [
        "SELECT ':a', 'it''s :b' FROM t",
        "SELECT x::text FROM t",
        'SELECT ":a" FROM t',
        "-- Not :a parameter\nSELECT 1",
    ],
)
def test_text_without_parameters_is_unchanged(source: str) -> None:
    assert translate_query(Query("q", source)) == Statement(source, (), may_change=False)


def test_byte_literals_are_translated() -> None:
    assert text_of("SELECT x'00fF', X'', 'ax''00'''") == (
        "SELECT CAST('\\x00fF' AS BYTEA), CAST('\\x' AS BYTEA), 'ax''00'''"
    )


def test_json_lists_become_arrays() -> None:
    array = "CAST(translate($1, '[]', '{}') AS BIGINT[])"
    source = "SELECT a FROM t WHERE a IN (SELECT value FROM json_each(:list)) AND b = :b"
    assert translate_query(Query("q", source)) == Statement(
        f"SELECT a FROM t WHERE a = ANY ({array}) AND b = $2", ("list", "b"), may_change=False
    )
    assert text_of("SELECT value FROM json_each(:list) WHERE TRUE") == (
        f"SELECT value FROM unnest({array}) AS listed (value) WHERE TRUE"
    )
    assert text_of("SELECT site.value FROM json_each(:list) AS site") == (
        f"SELECT site.value FROM unnest({array}) AS site (value)"
    )


@pytest.mark.parametrize("numbers", ["[]", "[1]", "[-9223372036854775808,0,9223372036854775807]"])
def test_list_gives_the_same_rows_on_both_engines(engine: Engine, numbers: str) -> None:
    conn = engine.connect(writable=False)
    conn.begin()
    rows = conn.values(Query("q", "SELECT value FROM json_each(:list) AS listed ORDER BY value"), list=numbers)
    among = conn.values(
        Query("q", "SELECT 1 FROM (SELECT 1 AS a) AS t WHERE a IN (SELECT value FROM json_each(:list))"), list=numbers
    )
    conn.rollback()
    conn.close()
    assert [value for (value,) in rows] == json.loads(numbers)
    assert bool(among) == (1 in json.loads(numbers))


def test_variant_of_this_engine_is_preferred() -> None:
    query = Query("q", "SELECT :a", (("postgres", "SELECT CAST(:b AS TEXT)"),))
    assert translate_query(query) == Statement("SELECT CAST($1 AS TEXT)", ("b",), may_change=False)


@pytest.mark.parametrize(
    ("source", "may_change"),
    [
        ("SELECT a FROM t", False),
        ("SELECT updated_at FROM t -- UPDATE t", False),
        ("INSERT INTO t VALUES (1)", True),
        ("UPDATE t SET a = 1", True),
        ("DELETE FROM t", True),
        ("WITH gone AS (DELETE FROM t RETURNING a) SELECT a FROM gone", True),
        ("SELECT a FROM t FOR UPDATE", True),
        ("SELECT a FROM t FOR NO KEY UPDATE SKIP LOCKED", True),
        ("SELECT a FROM t FOR SHARE", True),
    ],
)
def test_statements_that_change_or_lock_rows_are_recognised(source: str, may_change: bool) -> None:
    assert translate_query(Query("q", source)).may_change is may_change


def test_only_keywords_of_the_schema_are_translated() -> None:
    source = (
        "-- An INTEGER in a comment.\n"
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER NOT NULL DEFAULT 0, b BLOB, r REAL,\n"
        "    t TEXT DEFAULT 'INTEGER', PRIMARY_INTEGER INTEGER) WITHOUT ROWID;"
    )
    assert translate_schema(source) == (
        "-- An INTEGER in a comment.\n"
        "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n BIGINT NOT NULL DEFAULT 0,"
        " b BYTEA, r DOUBLE PRECISION,\n"
        "    t TEXT DEFAULT 'INTEGER', PRIMARY_INTEGER BIGINT);"
    )


def test_statements_for_postgresql_only_are_unchanged() -> None:
    source = (
        "CREATE TABLE t (n INTEGER);\n/* POSTGRES\nCREATE f AS $$ SELECT 'INTEGER', 1 INTEGER; $$;\n*/\n-- INTEGER\n"
    )
    assert (
        translate_schema(source)
        == "CREATE TABLE t (n BIGINT);\nCREATE f AS $$ SELECT 'INTEGER', 1 INTEGER; $$;\n\n-- INTEGER\n"
    )


def columns(engine: SqliteEngine | PostgresEngine, query: Query) -> set[tuple[str, str, str]]:
    conn = engine.connect(writable=False)
    try:
        return {(row["table_name"], row["column_name"], row["type"]) for row in conn.all(query)}
    finally:
        conn.close()


def test_both_engines_have_the_same_tables_and_columns(tmp_path: Path, postgres_url: str) -> None:
    embedded = SqliteEngine(tmp_path / "restante.db")
    migrate(embedded)
    there = columns(embedded, COLUMNS_OF_SQLITE)
    assert len(there) > 100
    assert columns(new_postgres_engine(postgres_url), COLUMNS_OF_POSTGRES) == there


@pytest.fixture
def migrated(postgres_url: str) -> PostgresEngine:
    return new_postgres_engine(postgres_url)


def test_postgresql_can_prepare_every_query_of_the_product(migrated: PostgresEngine) -> None:
    """Prepared, not run: the server must infer the types of all parameters, as a NULL has none."""
    refused = []
    conn = migrated.connect(writable=True)
    for path in SQL_FILES:
        if path.parent.name == "migrations" or path.name in NOT_FOR_ENGINES:
            continue
        queries = Queries(path)
        for name in queries.names():
            if (path.name, name) not in SQLITE_ONLY:
                statement = translate_query(getattr(queries, name))
                try:
                    conn.run(Query("prepare", f"PREPARE checked AS {statement.text}"))
                    conn.run(Query("forget", "DEALLOCATE checked"))
                except Exception as error:
                    refused.append(f"{path.name}: {name}: {error}")
    conn.close()
    assert "\n".join(refused) == ""
