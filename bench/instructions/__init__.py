"""`make bench-instructions REV=…`: the instructions of each hot path in this tree and in another commit."""
