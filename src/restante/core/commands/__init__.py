"""Decisions about commands."""
