-- What handing out and taking ACKs costs is, for a good part, keeping indexes: of those that every one of them touches,
-- fewer and cheaper ones.

-- A zone is of one site, so what a site can hand out is what its zones can: one index serves both.
DROP INDEX ix_miner_commands_ready;

-- Most commands have no dedupe key: that is tested first, and of those the state is not looked at.
DROP INDEX ix_miner_commands_dedupe_active;
CREATE UNIQUE INDEX ix_miner_commands_dedupe_active ON miner_commands (dedupe_key)
    WHERE dedupe_key IS NOT NULL AND status IN ('pending', 'dispatched', 'running');
DROP INDEX ix_miner_commands_dedupe_waiting;
CREATE UNIQUE INDEX ix_miner_commands_dedupe_waiting ON miner_commands (dedupe_key)
    WHERE dedupe_key IS NOT NULL AND status = 'pending_approval';
