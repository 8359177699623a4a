"""The pages of bulk work: jobs and rollouts."""
