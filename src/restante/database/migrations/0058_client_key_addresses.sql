-- Clients that publish their public keys at an address: the address, and when the server read it last.
ALTER TABLE event_clients ADD COLUMN jwks_uri TEXT;
ALTER TABLE event_clients ADD COLUMN jwks_read_at INTEGER;
