"""The hash-chained audit trail of each site: write, list, export, verify."""
