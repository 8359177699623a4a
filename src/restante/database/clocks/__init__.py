"""The database's time: read once for many uses in this process, and never going back on the embedded engine."""
