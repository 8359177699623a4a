"""Copies of logs and rate limits in Redis. The database stays the authority."""
