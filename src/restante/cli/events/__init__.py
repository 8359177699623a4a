"""The command groups for event polling."""
