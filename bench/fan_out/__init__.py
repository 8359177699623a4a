"""`python -m bench fan-out`: one publish to 100,000 recipients."""
