"""Suggestions for names that were misspelt."""

import difflib
from collections.abc import Collection

SIMILARITY_MIN = 0.8


def closest(name: str, known: Collection[str]) -> str | None:
    """The known name that this one is most likely a misspelling of; None if it is not close to any."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=SIMILARITY_MIN)
    return found[0] if found else None


def misspelt(name: str, known: Collection[str]) -> str | None:
    """The same where unknown names are allowed. A longer name, such as `hashrate_5s`, is not a misspelling."""
    if any(each in name for each in known):
        return None
    return closest(name, known)


def one_of(name: str, known: Collection[str]) -> str:
    """What is expected in place of an unknown name."""
    suggestion = closest(name, known)
    return f"one of {', '.join(known)}" if suggestion is None else f"a known name; did you mean {suggestion}?"
