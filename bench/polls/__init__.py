"""Polls of devices: idle, parked, and reading signals from a long log or from Redis."""
