-- Sites, zones and miners that are retired, and clients that are removed, stay: commands, events and the audit trails
-- refer to them.
ALTER TABLE edge_sites ADD COLUMN retired_at INTEGER;
ALTER TABLE edge_zones ADD COLUMN retired_at INTEGER;
ALTER TABLE edge_miners ADD COLUMN retired_at INTEGER;
ALTER TABLE edge_miners ADD COLUMN replaced_by INTEGER;
ALTER TABLE event_clients ADD COLUMN removed_at INTEGER;

-- For filtered lists: each begins with what a filter names, and ends with the key of the list.
CREATE INDEX ix_edge_miners_zone ON edge_miners (zone_id, id);
CREATE INDEX ix_edge_devices_site ON edge_devices (site_id, id);
CREATE INDEX ix_event_inbox_errored_client ON event_inbox (client, id) WHERE status = 'errored';
