"""The nouns of changes to many things at once: bulk actions, jobs and rollouts."""
