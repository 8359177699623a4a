"""Bulk actions on devices and outbox rows."""
