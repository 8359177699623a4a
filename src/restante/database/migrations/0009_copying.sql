-- Where a copy into this database stands; a row for each table, and none when no copy is under way.
CREATE TABLE copy_progress (
    table_name TEXT PRIMARY KEY,
    last_key   TEXT,
    row_count  INTEGER NOT NULL,
    is_copied  INTEGER NOT NULL
);
