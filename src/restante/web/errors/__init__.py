"""Responses to refused requests: an exception as a protocol's error body, and the `WWW-Authenticate` header."""
