"""The devices' long poll for signals."""
