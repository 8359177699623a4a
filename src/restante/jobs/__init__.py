"""Jobs: one action on every row that matches a filter, done in batches by the server."""
