-- A good part of the cost of dispatches and ACKs is index maintenance: this leaves fewer and cheaper indexes for them
-- to update.

-- A zone belongs to one site, so one index by zone serves both sites and zones.
DROP INDEX ix_miner_commands_ready;

-- Most commands have no dedupe key. That is tested first, so that their state is not.
DROP INDEX ix_miner_commands_dedupe_active;
CREATE UNIQUE INDEX ix_miner_commands_dedupe_active ON miner_commands (dedupe_key)
    WHERE dedupe_key IS NOT NULL AND status IN ('pending', 'dispatched', 'running');
DROP INDEX ix_miner_commands_dedupe_waiting;
CREATE UNIQUE INDEX ix_miner_commands_dedupe_waiting ON miner_commands (dedupe_key)
    WHERE dedupe_key IS NOT NULL AND status = 'pending_approval';
