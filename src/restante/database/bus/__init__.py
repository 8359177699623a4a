"""Messages between nodes that share a database."""
