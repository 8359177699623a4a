"""Automation rules that turn telemetry into commands."""
