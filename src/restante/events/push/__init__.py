"""Push events to receivers over HTTP, and the subscriptions that name the receivers."""
