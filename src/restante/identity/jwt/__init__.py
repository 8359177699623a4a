"""JWTs of this server and of external issuers."""
