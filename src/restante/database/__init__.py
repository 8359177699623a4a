"""Engines (SQLite, PostgreSQL), the group-committing writer, migrations, named queries and the node bus."""
