"""The receiver program: delivers verified event tokens to stdout, an executable, a webhook or a SQLite table."""
