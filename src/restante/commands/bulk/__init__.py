"""Bulk actions on miners and commands."""
