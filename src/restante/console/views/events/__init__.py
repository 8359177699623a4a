"""The pages of events: clients, events, signing keys."""
