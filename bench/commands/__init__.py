"""Edge commands: leases and ACKs, compared with direct calls and with other queues; telemetry with rules."""
