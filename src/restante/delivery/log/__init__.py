"""The log of signals of each device."""
