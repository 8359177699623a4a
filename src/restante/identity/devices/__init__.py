"""Tokens and codes of devices."""
