"""Several processes on one database: cluster messages, workers, roles."""
