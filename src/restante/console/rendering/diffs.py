"""The difference between two texts, line by line: what was removed, what was added, and a few lines around it."""

import difflib
from dataclasses import dataclass

import msgspec

CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class DiffLine:
    """`kind`: same, removed, added, or skipped for lines that are left out. `before`, `after`: the line numbers."""

    kind: str
    text: str
    before: int | None = None
    after: int | None = None


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """The lines that differ with those around them; nothing if the texts are equal."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[DiffLine] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT_LINES):
        if lines or group[0][1] > 0:
            lines.append(DiffLine("skipped", "…"))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                pairs = zip(range(old_from, old_to), range(new_from, new_to), strict=True)
                lines += [DiffLine("same", old[i], i + 1, j + 1) for i, j in pairs]
            else:
                lines += [DiffLine("removed", old[i], before=i + 1) for i in range(old_from, old_to)]
                lines += [DiffLine("added", new[j], after=j + 1) for j in range(new_from, new_to)]
    return lines


def json_diff_lines(before: bytes | None, after: bytes) -> list[DiffLine]:
    """The difference of two JSON texts, each indented; without a first one, everything was added."""
    return diff_lines("" if before is None else _indented(before), _indented(after))


def _indented(json: bytes) -> str:
    return msgspec.json.format(json, indent=2).decode()
