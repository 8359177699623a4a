"""The older API of collectors, under /api/collector: another form of the same poll, ACKs and telemetry."""
