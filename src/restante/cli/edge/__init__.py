"""The command groups for edge sites."""
