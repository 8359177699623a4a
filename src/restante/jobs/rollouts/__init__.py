"""Staged rollouts: a bulk action in waves, with thresholds, pause and roll-back."""
