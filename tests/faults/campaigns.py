"""Parts that the fault campaigns share: found violations, recovery times, and joining the threads of a load."""

import statistics
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.faults.server_process import TIMEOUT_SECONDS


@dataclass(slots=True)
class Violations:
    """The violations that a checker has found, by kind."""

    found: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def violations(self) -> list[str]:
        return [f"{kind}: {text}" for kind, texts in self.found.items() for text in texts]

    def kinds(self) -> set[str]:
        return {kind for kind, texts in self.found.items() if texts}

    def add(self, kind: str, text: str) -> None:
        self.found[kind].append(text)


def median_and_worst(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s" if seconds else "not measured"


def join_threads(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive(), f"{thread.name} does not end"
