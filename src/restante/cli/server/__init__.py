"""The commands that run and maintain a server."""
