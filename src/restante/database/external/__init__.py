"""External databases: databases of the user, reached by URL, that hold an outbox."""
