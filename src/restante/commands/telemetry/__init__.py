"""Telemetry and safety events that collectors report."""
