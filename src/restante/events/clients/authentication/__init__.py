"""The token endpoint: authenticates a client by secret, certificate or signed assertion, and issues its tokens."""
