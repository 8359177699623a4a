"""Streams of the Shared Signals Framework (SSF): configuration, status, subjects and polling."""
