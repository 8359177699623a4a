-- A miner carries out one command at a time. While one of its commands is leased, the others are held: their
-- next_attempt_at is the time of the next check at the latest, and the end of the lease makes them ready before that.
ALTER TABLE miner_commands ADD COLUMN is_held INTEGER NOT NULL DEFAULT 0;
-- The held commands of a miner, by type, in the order of dispatch.
CREATE INDEX ix_miner_commands_held ON miner_commands (miner_id, command_type, rank, id)
    WHERE is_held = 1 AND status = 'pending';
-- The leased commands of a miner.
CREATE INDEX ix_miner_commands_busy ON miner_commands (miner_id)
    WHERE status IN ('dispatched', 'running') AND miner_id IS NOT NULL;
