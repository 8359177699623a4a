"""`python -m bench charts`: draws the results of `python -m bench peers` as SVG for README and docs."""
