"""Which subjects a stream of shared signals follows.

Two subjects are the same if they are the same JSON, whatever the order of their members; their digest is what is
compared and looked up. A complex subject says several things at once, and who follows some of them is meant as well:
whoever follows a user, or a user on a device, hears of that user's session on that device.
"""

import hashlib
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from restante.core.canonical import canonical

# Of a complex subject with more members than this, only the members themselves are looked up, not their combinations.
COMBINED_MEMBERS_MAX = 6


def digest(subject: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(canonical(subject)).digest()


def digests(subject: Mapping[str, Any]) -> list[bytes]:
    """Under which digests somebody may follow it: its own first."""
    found = [digest(subject)]
    match subject.get("format"):
        case "aliases":
            found += [digest(each) for each in subject["identifiers"]]
        case "complex":
            members = {name: part for name, part in subject.items() if name != "format"}
            found += [digest(part) for part in members.values()]
            if len(members) <= COMBINED_MEMBERS_MAX:
                found += [digest(partial) for partial in _partial_subjects(members)]
    return found


def _partial_subjects(members: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The complex subjects that say less."""
    return [
        {"format": "complex", **{name: members[name] for name in chosen}}
        for size in range(1, len(members))
        for chosen in combinations(members, size)
    ]
