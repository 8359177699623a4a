-- While somebody's transaction is open, PostgreSQL keeps every version of every row that was changed since, and whoever
-- looks for a row steps over all of them. What each claim and ACK changes must not be looked for among its own past.

-- A checkpoint stands in a row of its own for each part of its chain, of which there is only ever the newest: it is
-- found from the end, where no older versions lie.
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

-- Before which moment nothing at a site is due: no command expires, runs out of its lease or becomes ready. NULL: nothing
-- ever is. Seldom written, as it may be sooner than the first that is: it then is when to look.
CREATE TABLE site_quiet (
    site_id     INTEGER PRIMARY KEY,
    quiet_until INTEGER
);

-- Below which rank nothing of a type in a zone can be handed out, so that nobody looks there, where all that was handed
-- out has left its entries; and the highest that this ever was. SQLite has no such entries, and keeps no marks.
CREATE TABLE ready_marks (
    zone_id      INTEGER NOT NULL,
    command_type TEXT NOT NULL,
    rank         INTEGER NOT NULL,
    frontier     INTEGER NOT NULL,
    PRIMARY KEY (zone_id, command_type)
);
-- Whoever makes a command ready, by whatever statement, lowers the mark to it: a command below its mark is never found.
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
