"""Protocol 1, device updates: a cursor over a log of signals for each device."""
