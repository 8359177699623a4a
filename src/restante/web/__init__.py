"""Routes, access control, requests, responses and the ASGI application."""
