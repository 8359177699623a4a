"""The group-committing writer: many writes, one transaction, one flush to disk. Start reading at writer.py."""
