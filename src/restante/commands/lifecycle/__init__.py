"""Creating, approving, cancelling, listing and explaining commands."""
