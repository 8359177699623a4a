"""The checker of the updates fault test: compares the changes with the signals that devices read.

It does not know about servers, sockets or time. A change and its signal have the same key, which is unique per device.
The signal of an acknowledged change must be delivered once and in order. The signal of a change without a response may
be delivered, once and in order. No other signal may be delivered.

    changes   in the order in which they were made; the order between devices is not compared
    readings  the result of each poll: from which cursor, to which cursor, which signals
    states    the server's own records at the end

A background worker emits the signal of a wrapped key at its own time: at most once after each renewal, and exactly once
after the last. So it has its own rule and is not part of the order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

# The type of the signal, and its identity among the device's signals of that type.
Key = tuple[str, str]

RENEWED = "cert.renewed"
WRAPPED = "cert.wrap_ready"
UPDATED = "cert.updated"
INSTALLED = "install.updated"
ASSIGNED = "ca.assigned"
UNASSIGNED = "ca.unassigned"


@dataclass(frozen=True, slots=True)
class Change:
    device: int
    key: Key
    acknowledged: bool


@dataclass(frozen=True, slots=True)
class Reading:
    reader: str
    device: int
    after: str
    cursor: str
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A device at the end, by the server's own records."""

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
    unsolicited: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        return [
            *self.lost,
            *self.repeated,
            *self.reordered,
            *self.unsolicited,
            *self.gaps,
            *self.contradictions,
        ]

    def __str__(self) -> str:
        return (
            f"{self.acknowledged} changes acknowledged, {self.unanswered} unanswered, "
            f"{self.delivered} signals delivered; lost {len(self.lost)}, repeated {len(self.repeated)}, "
            f"reordered {len(self.reordered)}, unsolicited {len(self.unsolicited)}, gaps {len(self.gaps)}, "
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
    delivered: dict[int, list[Key]] = {}
    by_reader = sorted(readings, key=lambda reading: (reading.device, reading.reader))
    for (device, reader), group in groupby(by_reader, key=lambda each: (each.device, each.reader)):
        reader_readings = list(group)
        who = f"device {device}, {reader}"
        _check_cursors(verdict, who, reader_readings)
        keys = [key for reading in reader_readings for key in reading.keys]
        verdict.delivered += len(keys)
        _check_sequence(
            verdict, who, expected.get(device, []), [key for key in keys if key[0] not in (WRAPPED, UPDATED)]
        )
        _check_wraps(verdict, who, keys)
        _check_aliases(verdict, who, keys)
        delivered[device] = keys
    for device in expected.keys() - delivered.keys():
        verdict.lost.append(f"device {device}: no reader read anything")
    for state in states:
        _check_state(verdict, state, delivered.get(state.device, []))
    return verdict


def _check_cursors(verdict: Verdict, who: str, readings: list[Reading]) -> None:
    """Each reading starts at the end of the previous one, and its cursor moves by the number of its signals."""
    for before, reading in pairwise(readings):
        if before.cursor != reading.after:
            verdict.gaps.append(f"{who}: read to {before.cursor}, then from {reading.after}")
    for reading in readings:
        if number_in(reading.cursor) - number_in(reading.after) != len(reading.keys):
            verdict.gaps.append(f"{who}: {len(reading.keys)} signals from {reading.after} to {reading.cursor}")


def number_in(cursor: str) -> int:
    return int(cursor.rpartition("-")[2])


def _check_sequence(verdict: Verdict, who: str, expected: list[Change], delivered: list[Key]) -> None:
    order = {change.key: number for number, change in enumerate(expected)}
    if len(order) != len(expected):
        raise ValueError(f"{who}: two changes have the same key")
    seen: set[Key] = set()
    last = -1
    for key in delivered:
        if key not in order:
            verdict.unsolicited.append(f"{who}: {key}")
        elif key in seen:
            verdict.repeated.append(f"{who}: {key}")
        else:
            if order[key] < last:
                verdict.reordered.append(f"{who}: {key} after {expected[last].key}")
            last = max(last, order[key])
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


def _check_aliases(verdict: Verdict, who: str, keys: list[Key]) -> None:
    """Each alias follows the signal that it repeats."""
    wraps = aliases = 0
    for kind, identity in keys:
        wraps += kind == WRAPPED
        aliases += kind == UPDATED
        if aliases > wraps:
            verdict.reordered.append(f"{who}: cert.updated {identity} before its cert.wrap_ready")
            return
    if aliases and aliases < wraps:
        verdict.lost.append(f"{who}: {wraps - aliases} of {wraps} cert.updated")


def _check_state(verdict: Verdict, state: State, delivered: list[Key]) -> None:
    """The delivered signals together must describe the final state."""
    who = f"device {state.device}"
    installs = tuple(identity for kind, identity in delivered if kind == INSTALLED)
    if installs != state.install_hashes:
        verdict.contradictions.append(f"{who}: {len(installs)} installs delivered, {len(state.install_hashes)} stored")
    trusted: set[str] = set()
    for kind, identity in delivered:
        if kind == ASSIGNED:
            trusted.add(identity)
        elif kind == UNASSIGNED:
            trusted.discard(identity)
    if trusted != state.authorities:
        verdict.contradictions.append(f"{who}: signals trust {sorted(trusted)}, the server {sorted(state.authorities)}")
    serials = [identity for kind, identity in delivered if kind == RENEWED]
    if serials and serials[-1] != state.serial:
        verdict.contradictions.append(f"{who}: last signal has {serials[-1]}, the certificate {state.serial}")
