"""What the benchmarks share: processes pinned to a core, load from wrk, nginx as a reference, warm servers.

The .lua files are scripts of wrk, one for each kind of request.
"""
