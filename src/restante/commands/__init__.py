"""Protocol 2, edge commands: leased, signed commands with idempotent ACKs."""
