"""Requests for one action on everything that matches a filter."""
