"""The fast lane, connection deadlines and TLS."""
