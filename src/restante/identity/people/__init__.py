"""People: accounts, passwords, sessions, sign-in."""
