-- Bounds what strangers can store, and lets the access tokens of a stolen session end.

-- The sender in limits: an IPv4 address, or the /64 network of an IPv6 address.
ALTER TABLE device_codes ADD COLUMN address_group TEXT NOT NULL DEFAULT '';
CREATE INDEX ix_device_codes_group ON device_codes (address_group, expires_at);

-- A device's own access tokens with a lower generation do not count. It is raised when a refresh token was used twice.
ALTER TABLE user_devices ADD COLUMN token_generation INTEGER NOT NULL DEFAULT 0;
