"""Publish events to clients' inboxes, and show operators what happened to them."""
