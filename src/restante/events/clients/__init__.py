"""Clients of event polling: registration by operators, and the token endpoint that authenticates them."""
