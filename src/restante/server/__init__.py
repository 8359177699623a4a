"""The composition root: it builds a node from the settings, starts it and stops it."""
