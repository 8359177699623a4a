"""The judge of a fault test: records in, verdict out. Knows nothing of servers, sockets or time.

A change is known by its key, which is the key of its signal too and occurs once for each device. What was acknowledged
must be told, once and in its place; what was never answered may be told, once and in its place; nothing else may be.

    changes   in the order they were made, one device after another's business is not compared
    readings  what each poll gave: from which cursor, to which, and what
    states    what the server says at the end about the things that were changed

A wrapped key is told by a worker in the background, at a time of its own: at most once after each renewal, and
exactly once after the last. So it has a rule of its own and no place in the order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple

# The type of the signal, and what tells it from all others of that type for the device.
Key = tuple[str, str]

RENEWED = "cert.renewed"
WRAPPED = "cert.wrap_ready"
INSTALLED = "install.updated"
ASSIGNED = "ca.assigned"
UNASSIGNED = "ca.unassigned"


class Change(NamedTuple):
    device: int
    key: Key
    acknowledged: bool


class Reading(NamedTuple):
    reader: str
    device: int
    after: str
    cursor: str
    keys: tuple[Key, ...]


class State(NamedTuple):
    """The end as the server's own records have it."""

    device: int
    install_hashes: tuple[str, ...]
    authorities: frozenset[str]
    serial: str


@dataclass(slots=True)
class Verdict:
    acknowledged: int = 0
    unanswered: int = 0
    delivered: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    uninvited: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        return [
            *self.lost,
            *self.repeated,
            *self.reordered,
            *self.uninvited,
            *self.gaps,
            *self.contradictions,
        ]

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} changes acknowledged, {self.unanswered} unanswered, "
            f"{self.delivered} signals delivered; lost {len(self.lost)}, repeated {len(self.repeated)}, "
            f"reordered {len(self.reordered)}, uninvited {len(self.uninvited)}, gaps {len(self.gaps)}, "
            f"contradictions {len(self.contradictions)}"
        )


def check(changes: Sequence[Change], readings: Iterable[Reading], states: Iterable[State] = ()) -> Verdict:
    verdict = Verdict(
        acknowledged=sum(change.acknowledged for change in changes),
        unanswered=sum(not change.acknowledged for change in changes),
    )
    expected: dict[int, list[Change]] = {}
    for change in changes:
        expected.setdefault(change.device, []).append(change)
    told: dict[int, list[Key]] = {}
    by_reader = sorted(readings, key=lambda reading: (reading.device, reading.reader))
    for (device, reader), group in groupby(by_reader, key=lambda each: (each.device, each.reader)):
        taken = list(group)
        who = f"device {device}, {reader}"
        _check_cursors(verdict, who, taken)
        keys = [key for reading in taken for key in reading.keys]
        verdict.delivered += len(keys)
        _check_sequence(verdict, who, expected.get(device, []), [key for key in keys if key[0] != WRAPPED])
        _check_wraps(verdict, who, keys)
        told[device] = keys
    for device in expected.keys() - told.keys():
        verdict.lost.append(f"device {device}: nobody read anything")
    for state in states:
        _check_state(verdict, state, told.get(state.device, []))
    return verdict


def _check_cursors(verdict: Verdict, who: str, readings: list[Reading]) -> None:
    """Each reading begins where the one before ended, and its cursor has moved on by as many as it gave."""
    for before, reading in pairwise(readings):
        if before.cursor != reading.after:
            verdict.gaps.append(f"{who}: read to {before.cursor}, then from {reading.after}")
    for reading in readings:
        if number_in(reading.cursor) - number_in(reading.after) != len(reading.keys):
            verdict.gaps.append(f"{who}: {len(reading.keys)} signals from {reading.after} to {reading.cursor}")


def number_in(cursor: str) -> int:
    return int(cursor.rpartition("-")[2])


def _check_sequence(verdict: Verdict, who: str, expected: list[Change], told: list[Key]) -> None:
    place = {change.key: number for number, change in enumerate(expected)}
    if len(place) != len(expected):
        raise ValueError(f"{who}: two changes have the same key")
    seen: set[Key] = set()
    last = -1
    for key in told:
        if key not in place:
            verdict.uninvited.append(f"{who}: {key}")
        elif key in seen:
            verdict.repeated.append(f"{who}: {key}")
        else:
            if place[key] < last:
                verdict.reordered.append(f"{who}: {key} after {expected[last].key}")
            last = max(last, place[key])
        seen.add(key)
    verdict.lost += [f"{who}: {change.key}" for change in expected if change.acknowledged and change.key not in seen]


def _check_wraps(verdict: Verdict, who: str, keys: list[Key]) -> None:
    wraps_since_renewal = 0
    has_certificate = False
    for kind, identity in keys:
        if kind == RENEWED:
            wraps_since_renewal = 0
            has_certificate = True
        elif kind == WRAPPED:
            wraps_since_renewal += 1
            if wraps_since_renewal > 1:
                verdict.repeated.append(f"{who}: certificate {identity} wrapped twice for one issue")
    if has_certificate and not wraps_since_renewal:
        verdict.lost.append(f"{who}: the last renewal's wrapped key")


def _check_state(verdict: Verdict, state: State, told: list[Key]) -> None:
    """What the device was told, taken together, must be what is the case."""
    who = f"device {state.device}"
    installs = tuple(identity for kind, identity in told if kind == INSTALLED)
    if installs != state.install_hashes:
        verdict.contradictions.append(f"{who}: {len(installs)} installs told, {len(state.install_hashes)} in force")
    trusted: set[str] = set()
    for kind, identity in told:
        if kind == ASSIGNED:
            trusted.add(identity)
        elif kind == UNASSIGNED:
            trusted.discard(identity)
    if trusted != state.authorities:
        verdict.contradictions.append(f"{who}: told to trust {sorted(trusted)}, is to {sorted(state.authorities)}")
    serials = [identity for kind, identity in told if kind == RENEWED]
    if serials and serials[-1] != state.serial:
        verdict.contradictions.append(f"{who}: told of {serials[-1]}, the certificate is {state.serial}")
