-- The signals of one device that could not be published.
CREATE INDEX ix_device_update_outbox_failed_device ON device_update_outbox (device_id, id) WHERE status = 'FAILED';
