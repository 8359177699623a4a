"""TLS: its files, the handshake and records of one connection, and a transport for connections that stay open."""
