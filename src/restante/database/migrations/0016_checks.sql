-- States are checked at every write. SQLite is fast with a chain of OR, which is slow on PostgreSQL: there the same
-- check uses a list.
/* POSTGRES
ALTER TABLE miner_commands DROP CONSTRAINT miner_commands_status_check;
ALTER TABLE miner_commands ADD CONSTRAINT miner_commands_status_check CHECK
    (status IN ('pending_approval', 'pending', 'dispatched', 'running', 'succeeded', 'failed', 'expired', 'cancelled'));
ALTER TABLE event_inbox DROP CONSTRAINT event_inbox_status_check;
ALTER TABLE event_inbox ADD CONSTRAINT event_inbox_status_check CHECK
    (status IN ('unsigned', 'ready', 'acknowledged', 'errored', 'dropped'));
ALTER TABLE device_update_outbox DROP CONSTRAINT device_update_outbox_status_check;
ALTER TABLE device_update_outbox ADD CONSTRAINT device_update_outbox_status_check CHECK
    (status IN ('PENDING', 'DELIVERED', 'FAILED'));
*/
