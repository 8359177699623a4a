"""Matches subjects of events with the subjects that Shared Signals streams follow.

Two subjects are equal if their JSON is equal, whatever the order of members; their digests are compared. A complex
subject names several things, and a stream that follows some of them matches too: a stream that follows a user, or a
user on a device, receives events about that user's session on that device.
"""

import hashlib
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from restante.core.commands.canonical import canonical_json

# For a complex subject with more members than this, only single members are matched, not their combinations.
COMBINED_MEMBERS_MAX = 6


def subject_digest(subject: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(canonical_json(subject)).digest()


def matching_digests(subject: Mapping[str, Any]) -> list[bytes]:
    """Return the digests of all subjects whose followers receive an event about `subject`, its own first."""
    found = [subject_digest(subject)]
    match subject.get("format"):
        case "aliases":
            found += [subject_digest(each) for each in subject["identifiers"]]
        case "complex":
            members = {name: part for name, part in subject.items() if name != "format"}
            found += [subject_digest(part) for part in members.values()]
            if len(members) <= COMBINED_MEMBERS_MAX:
                found += [subject_digest(partial) for partial in _partial_subjects(members)]
    return found


def _partial_subjects(members: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the complex subjects with some of the members, but not all."""
    return [
        {"format": "complex", **{name: members[name] for name in chosen}}
        for size in range(1, len(members))
        for chosen in combinations(members, size)
    ]
