"""Events: publishing, signing, fetching and acknowledging."""
