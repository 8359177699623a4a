"""The developers' portal: what developers of clients must know, samples, and the backlog of a signed-in client."""
