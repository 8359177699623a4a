"""Decisions without I/O: no asyncio, no SQL, no HTTP; time is an argument."""
