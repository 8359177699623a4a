"""How a command reaches a server: which one, as whom, with which options, and how the response is shown."""
