"""Bulk jobs and staged rollouts: their routes, and the services that run them."""
