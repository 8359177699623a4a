"""Accepting ACKs from collectors."""
