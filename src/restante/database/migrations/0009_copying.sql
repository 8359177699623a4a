-- The progress of a copy into this database: a row for each table; no rows if no copy is unfinished.
CREATE TABLE copy_progress (
    table_name TEXT PRIMARY KEY,
    last_key   TEXT,
    row_count  INTEGER NOT NULL,
    is_copied  INTEGER NOT NULL
);
