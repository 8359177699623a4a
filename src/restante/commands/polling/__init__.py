"""The collectors' long poll, and waking it across nodes."""
