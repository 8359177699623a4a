"""The change of the master key: every sealed value goes under a new one while the servers run."""
