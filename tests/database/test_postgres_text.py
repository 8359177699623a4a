import json
from pathlib import Path

import pytest

from restante.database.engine import Engine
from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine
from restante.database.postgres_text import schema_of, statement_of
from restante.database.queries import Queries, Query
from restante.database.sqlite import SqliteEngine

SOURCE = Path(__file__).parents[2] / "src" / "restante"
SQL_FILES = sorted(SOURCE.rglob("*.sql"))
# What is asked of the embedded engine about itself.
OF_SQLITE_ALONE = {
    ("checks.sql", "quick_check"),
    ("checks.sql", "journal_mode"),
    ("copying.sql", "columns"),
    ("copying.sql", "references"),
    ("copying.sql", "counters"),
}
# Its texts are filled in by hand, for databases of any kind.
NOT_FOR_ENGINES = {"outside_outbox.sql"}
# How PostgreSQL calls the types that the migrations name.
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
    return statement_of(Query("q", source)).text


def test_parameters_are_numbered_and_the_same_name_has_the_same_number() -> None:
    statement = statement_of(Query("q", "SELECT :b, :a_1 FROM t WHERE x = :b AND (a, b) > (:a_1,:c)"))
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
def test_what_is_no_parameter_is_left_alone(source: str) -> None:
    assert statement_of(Query("q", source)) == (source, (), False)


def test_bytes_are_written_differently() -> None:
    assert text_of("SELECT x'00fF', X'', 'ax''00'''") == (
        "SELECT CAST('\\x00fF' AS BYTEA), CAST('\\x' AS BYTEA), 'ax''00'''"
    )


def test_lists_of_numbers_are_arrays() -> None:
    array = "CAST(translate($1, '[]', '{}') AS BIGINT[])"
    assert statement_of(Query("q", "SELECT a FROM t WHERE a IN (SELECT value FROM json_each(:list)) AND b = :b"))[
        :2
    ] == (
        f"SELECT a FROM t WHERE a = ANY ({array}) AND b = $2",
        ("list", "b"),
    )
    assert text_of("SELECT value FROM json_each(:list) WHERE TRUE") == (
        f"SELECT value FROM unnest({array}) AS listed (value) WHERE TRUE"
    )
    assert text_of("SELECT site.value FROM json_each(:list) AS site") == (
        f"SELECT site.value FROM unnest({array}) AS site (value)"
    )


@pytest.mark.parametrize("numbers", ["[]", "[1]", "[-9223372036854775808,0,9223372036854775807]"])
def test_a_list_is_the_same_rows_everywhere(engine: Engine, numbers: str) -> None:
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


def test_the_text_of_this_engine_is_taken_where_there_is_one() -> None:
    query = Query("q", "SELECT :a", (("postgres", "SELECT CAST(:b AS TEXT)"),))
    assert statement_of(query)[:2] == ("SELECT CAST($1 AS TEXT)", ("b",))


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
def test_it_is_known_what_may_change_or_hold_rows(source: str, may_change: bool) -> None:
    assert statement_of(Query("q", source)).may_change is may_change


def test_the_schemas_words_are_translated_and_nothing_else() -> None:
    source = (
        "-- An INTEGER in a comment.\n"
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER NOT NULL DEFAULT 0, b BLOB, r REAL,\n"
        "    t TEXT DEFAULT 'INTEGER', PRIMARY_INTEGER INTEGER) WITHOUT ROWID;"
    )
    assert schema_of(source) == (
        "-- An INTEGER in a comment.\n"
        "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n BIGINT NOT NULL DEFAULT 0,"
        " b BYTEA, r DOUBLE PRECISION,\n"
        "    t TEXT DEFAULT 'INTEGER', PRIMARY_INTEGER BIGINT);"
    )


def test_what_is_for_postgresql_alone_is_taken_as_it_stands() -> None:
    source = (
        "CREATE TABLE t (n INTEGER);\n/* POSTGRES\nCREATE f AS $$ SELECT 'INTEGER', 1 INTEGER; $$;\n*/\n-- INTEGER\n"
    )
    assert (
        schema_of(source)
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
    assert columns(PostgresEngine(postgres_url), COLUMNS_OF_POSTGRES) == there


@pytest.fixture
def prepared(postgres_url: str) -> PostgresEngine:
    return PostgresEngine(postgres_url)


def test_postgresql_understands_every_query_of_the_product(prepared: PostgresEngine) -> None:
    """Prepared, not run: with parameters whose types it must find out by itself, as a NULL does not tell."""
    refused = []
    conn = prepared.connect(writable=True)
    for path in SQL_FILES:
        if path.parent.name == "migrations" or path.name in NOT_FOR_ENGINES:
            continue
        queries = Queries(path)
        for name in queries.names():
            if (path.name, name) not in OF_SQLITE_ALONE:
                statement = statement_of(getattr(queries, name))
                try:
                    conn.run(Query("prepare", f"PREPARE checked AS {statement.text}"))
                    conn.run(Query("forget", "DEALLOCATE checked"))
                except Exception as error:
                    refused.append(f"{path.name}: {name}: {error}")
    conn.close()
    assert "\n".join(refused) == ""
