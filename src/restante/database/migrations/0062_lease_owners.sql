-- PostgreSQL checked for each lease that its collector exists, and locked the collector's row for that. A claim has read
-- that row in its transaction, and collectors are never deleted.
/* POSTGRES
ALTER TABLE miner_commands DROP CONSTRAINT miner_commands_lease_owner_fkey;
*/
