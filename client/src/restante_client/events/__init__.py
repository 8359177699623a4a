"""Event polling (RFC 8936): client credentials, verified event tokens, and a store before every acknowledgement."""
