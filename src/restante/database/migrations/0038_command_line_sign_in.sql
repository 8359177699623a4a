-- A device code approves a device, or signs a person in at a command line.
ALTER TABLE device_codes ADD COLUMN purpose TEXT NOT NULL DEFAULT 'device';
