"""The transactional outbox, and the dispatchers that publish from it."""
