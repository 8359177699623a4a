"""The nouns of devices, people and keys."""
