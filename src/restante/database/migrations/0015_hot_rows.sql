-- While any transaction is open, PostgreSQL keeps all versions of the rows changed since, and index scans step over
-- them. Rows that every claim and ACK changes must therefore not be searched for among their own old versions.

-- Each part of a chain has its own checkpoint row, so that the newest checkpoint is found from the end, where there
-- are no old versions.
CREATE TABLE kept_checkpoints AS SELECT chain, n, hash, at, signature FROM audit_checkpoints;
DROP TABLE audit_checkpoints;
CREATE TABLE audit_checkpoints (
    chain     INTEGER NOT NULL,
    part      INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    hash      BLOB NOT NULL,
    at        INTEGER NOT NULL,
    signature BLOB NOT NULL,
    PRIMARY KEY (chain, part)
);
INSERT INTO audit_checkpoints (chain, part, n, hash, at, signature)
SELECT chain, n / 64, n, hash, at, signature FROM kept_checkpoints;
DROP TABLE kept_checkpoints;

-- The time before which nothing is due at a site: no command expires, loses its lease or becomes ready. NULL: nothing
-- is due. It may be earlier than the first due time, which only causes one more check, so it is seldom updated.
CREATE TABLE site_quiet (
    site_id     INTEGER PRIMARY KEY,
    quiet_until INTEGER
);

-- Watermarks: no command of a type in a zone can be dispatched below this rank, so that claims do not scan the old
-- index entries of dispatched commands there; and the highest value so far. SQLite has no such entries and needs no
-- watermark.
CREATE TABLE ready_marks (
    zone_id      INTEGER NOT NULL,
    command_type TEXT NOT NULL,
    rank         INTEGER NOT NULL,
    frontier     INTEGER NOT NULL,
    PRIMARY KEY (zone_id, command_type)
);
-- Every statement that makes a command ready lowers the watermark to it: a command below its watermark is never
-- found.
/* POSTGRES
CREATE FUNCTION lower_ready_mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ready_marks SET rank = NEW.rank
    WHERE zone_id = NEW.zone_id AND command_type = NEW.command_type AND rank > NEW.rank;
    RETURN NULL;
END
$$;
CREATE TRIGGER miner_commands_ready AFTER INSERT OR UPDATE ON miner_commands FOR EACH ROW
WHEN (NEW.status = 'pending' AND NEW.next_attempt_at IS NULL) EXECUTE FUNCTION lower_ready_mark();
*/
