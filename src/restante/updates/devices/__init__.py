"""Devices and their owners: registration, sessions, approval, reports, and the operator's view of the fleet."""
