-- Miners that collectors report and that no operator has registered at the site yet. Their telemetry is in
-- telemetry_latest and telemetry_history under the negative id of this row: two sites may report the same miner id.
-- The row is deleted when the miner is registered. Ids are not used again: telemetry never gets to another miner.
CREATE TABLE unknown_miners (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    site_id       INTEGER NOT NULL,
    miner_id      INTEGER NOT NULL,
    first_seen_at INTEGER NOT NULL,
    UNIQUE (site_id, miner_id)
);

-- 0: the miner was not registered at the site when the event arrived, nor later.
ALTER TABLE safety_events ADD COLUMN miner_known INTEGER NOT NULL DEFAULT 1;
CREATE INDEX ix_safety_events_unknown ON safety_events (site_id, miner_id) WHERE miner_known = 0;
