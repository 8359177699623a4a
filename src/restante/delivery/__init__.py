"""The outbox, its dispatchers, the log of signals, the waiter registry and the copy in Redis."""
