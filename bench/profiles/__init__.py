"""`python -m bench profile NAME`: where the time of a hot path goes."""
