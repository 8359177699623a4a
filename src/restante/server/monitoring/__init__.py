"""Metrics, health checks and logs."""
