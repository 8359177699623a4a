"""Forms: the fields that a browser posts, read with bounds, and forms made from a JSON Schema."""
