"""Protocol 3, event polling: signed event tokens, kept until the client acknowledges them."""
