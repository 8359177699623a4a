"""The pages of device updates: the fleet, a device, the outbox."""
