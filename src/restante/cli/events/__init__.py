"""The nouns of events: clients, events, signing keys, streams."""
