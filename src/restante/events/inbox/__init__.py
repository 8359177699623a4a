"""Each client's inbox of event tokens, and the poll that reads and acknowledges it."""
