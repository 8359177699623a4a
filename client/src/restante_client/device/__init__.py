"""Device updates: enrolment, tokens, polls, and what a device fetches."""
