"""Installing items: their order, consent, files, commands and trust stores, and the rollback of a failed run.

`applier` makes a run out of the other modules. None of them calls the server.
"""
