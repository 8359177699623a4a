"""Connections: a new one for each poll, TLS, and the first polls after a restart."""
