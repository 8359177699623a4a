"""Bulk actions on events."""
