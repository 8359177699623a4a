"""Tokens and certificates of collectors and event clients."""
