"""Settings: declarations, sources, types, and the options made from them."""
