"""Edge commands: poll, verify, execute at most once, acknowledge, and report from a durable spool."""
