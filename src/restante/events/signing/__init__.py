"""Sign event tokens in background processes, and manage the signing keys."""
