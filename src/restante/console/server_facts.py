"""What the console shows about the server itself. The composition root provides it: the console does not know nodes,
settings and checks."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from restante.web.component import MetricSample

AWAY_AFTER_MS = 20_000


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting in force. `value` has no secret in it."""

    name: str
    value: str
    default: str
    meaning: str

    @property
    def is_changed(self) -> bool:
        return self.value != self.default


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What the doctor found about one subject. `state`: ok, warning or problem."""

    subject: str
    state: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    name: str
    host: str
    listen: str
    roles: str
    version: str
    started_at: int
    seen_at: int
    is_self: bool
    connections: int
    parked_polls: int
    requests_per_second: float
    # The last values of its rates, by chart.
    series: Mapping[str, list[float]]

    def is_away(self, now_ms: int) -> bool:
        return not self.is_self and now_ms - self.seen_at > AWAY_AFTER_MS


@dataclass(frozen=True, slots=True)
class ServerFacts:
    settings: Callable[[], list[SettingRow]]
    # Reads files, the database and Redis: it blocks, so it runs in a thread.
    check: Callable[[], list[CheckResult]]
    samples: Callable[[], Iterable[MetricSample]]
    # Reads what the samples about backlogs need; returns how many commands wait.
    read_backlogs: Callable[[], Awaitable[int]]
    # External systems that the server works without now.
    away: Callable[[], list[str]]
    nodes: Callable[[], Awaitable[list[NodeRow]]]
