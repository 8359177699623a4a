"""Lists over large tables: filtered pages, and exact counts, without a read that takes long."""
