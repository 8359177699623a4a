"""The command groups for devices, people and keys."""
