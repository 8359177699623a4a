"""The pages of people and API keys."""
