"""Benchmarks: `python -m bench NAME` measures and prints, `python -m bench.compare REV` compares two commits.

    polls, delivery, commands, events    the protocols
    operators                            the fleet list, bulk changes, pages of the console
    wire                                 connections: new ones, TLS, first polls after a restart
    fan_out                              one publish to 100,000 recipients
    footprint                            installed size, memory, time to start
    peers, charts                        other servers with the same work, and the pictures of their results
    profiles                             where the time of a hot path goes
    tools, data                          what the benchmarks share; data folders that they serve

Results are in RESULTS.md and results/.
"""
