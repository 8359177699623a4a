"""Data folders that benchmarks serve. `python -m bench.compare` also runs this code of the other commit."""
