"""Routes for people, API keys and their audit trail."""
