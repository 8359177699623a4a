"""Handing commands to collectors: claims, leases, rate limits and signatures."""
