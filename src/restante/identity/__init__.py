"""Callers and their credentials: people, API keys, tokens of devices, collectors and clients, the master key."""
