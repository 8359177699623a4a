-- name: columns
-- The columns of every table, in order, with their position in the primary key (0: not in it). SQLite only.
SELECT tables.name AS table_name, columns.name AS column_name, columns.pk AS key_place
FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
ORDER BY tables.name, columns.cid

-- name: references
-- Which table references which. SQLite only.
SELECT tables.name AS table_name, parents."table" AS parent_name
FROM sqlite_master AS tables JOIN pragma_foreign_key_list(tables.name) AS parents
WHERE tables.type = 'table'

-- name: counters
-- The highest id that each table ever issued, deleted rows included. SQLite has no sequence for command_audit, where
-- rows are never deleted.
SELECT name AS table_name, seq AS highest FROM sqlite_sequence
UNION ALL
SELECT 'command_audit' AS table_name, MAX(id) AS highest FROM command_audit

-- name: counters@postgres
-- PostgreSQL has a sequence for each table with an id.
SELECT regexp_replace(sequencename, '_id_seq$', '') AS table_name, last_value AS highest
FROM pg_sequences WHERE schemaname = current_schema() AND sequencename LIKE '%\_id\_seq'

-- name: progress
-- The progress of the copy.
SELECT table_name, last_key, row_count, is_copied FROM copy_progress ORDER BY table_name

-- name: begin_table
-- Records that no row of the table is copied yet.
INSERT INTO copy_progress (table_name, last_key, row_count, is_copied) VALUES (:table_name, NULL, 0, 0)

-- name: advance
-- Records the rows that this transaction copied.
UPDATE copy_progress SET last_key = :last_key, row_count = :row_count, is_copied = :is_copied
WHERE table_name = :table_name

-- name: delete_progress
-- The copy is finished, or starts over.
DELETE FROM copy_progress

-- name: add_counter
-- SQLite has a counter only for a table that had rows.
INSERT INTO sqlite_sequence (name, seq)
SELECT :table_name, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table_name)

-- name: advance_counter
-- Makes the table issue only higher ids from now on.
UPDATE sqlite_sequence SET seq = :highest WHERE name = :table_name

-- name: advance_counter@postgres
-- PostgreSQL has a sequence for each table.
SELECT setval(pg_get_serial_sequence(CAST(:table_name AS TEXT), 'id'), CAST(:highest AS BIGINT))
