-- name: columns
-- Every table's columns, in order, with their place in the primary key (0: not in it). Of the embedded engine.
SELECT tables.name AS table_name, columns.name AS column_name, columns.pk AS key_place
FROM sqlite_master AS tables JOIN pragma_table_info(tables.name) AS columns
WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
ORDER BY tables.name, columns.cid

-- name: references
-- Which table refers to which. Of the embedded engine.
SELECT tables.name AS table_name, parents."table" AS parent_name
FROM sqlite_master AS tables JOIN pragma_foreign_key_list(tables.name) AS parents
WHERE tables.type = 'table'

-- name: counters
-- The highest id that each table ever gave, which may be higher than that of any row left. Of the embedded engine, which
-- keeps no count for the trail: nothing is ever deleted there.
SELECT name AS table_name, seq AS highest FROM sqlite_sequence
UNION ALL
SELECT 'command_audit' AS table_name, MAX(id) AS highest FROM command_audit

-- name: progress
-- Where the copy stands.
SELECT table_name, last_key, row_count, is_copied FROM copy_progress ORDER BY table_name

-- name: begin_table
-- Nothing of the table is copied yet.
INSERT INTO copy_progress (table_name, last_key, row_count, is_copied) VALUES (:table_name, NULL, 0, 0)

-- name: advance
-- What was copied in this transaction.
UPDATE copy_progress SET last_key = :last_key, row_count = :row_count, is_copied = :is_copied
WHERE table_name = :table_name

-- name: forget_progress
-- The copy is over.
DELETE FROM copy_progress

-- name: advance_counter
-- The ids that a table gives from now on are higher than this.
UPDATE sqlite_sequence SET seq = :highest WHERE name = :table_name

-- name: advance_counter@postgres
-- There each table's counter is a sequence of its own.
SELECT setval(pg_get_serial_sequence(CAST(:table_name AS TEXT), 'id'), CAST(:highest AS BIGINT))
