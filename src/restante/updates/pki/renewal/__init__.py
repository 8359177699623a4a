"""Renewal of certificates by calendar, and lists of what ends when."""
