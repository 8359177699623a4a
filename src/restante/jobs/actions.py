"""What a job acts on, and what it does: the interface between the job engine and the protocols.

    JobTarget    a kind of rows with a filter: devices, miners, commands, events, outbox rows
    JobAction    what to do with a batch of those rows: put a config, cancel, release, …

Each protocol implements its own targets and actions and registers them (`Component.job_actions`). The engine depends on
no protocol, and a protocol does not handle leases, progress and rates.

Contract of an action: a RestanteError that concerns one item is raised before the first change of that item. The item
then fails alone. Any other exception rolls the whole batch back, and its items are tried one by one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from restante.core.errors import RestanteError, RetryLater
from restante.database.connection import Connection
from restante.identity.grants import AllowedIds, Area

F = TypeVar("F", bound=msgspec.Struct)
P = TypeVar("P", bound=msgspec.Struct)

BATCH_ITEMS = 500
ERROR_CHARACTERS_MAX = 500

ItemState = Literal["done", "failed", "skipped"]


class ItemResult(NamedTuple):
    """The result of one item. `ref`: its public name. `result`: the name of what the action made."""

    item: int
    state: ItemState = "done"
    ref: str | None = None
    result: str | None = None
    error: str | None = None


class IdPage(NamedTuple):
    """Ids in ascending order. `next`: the id after which to continue; None at the end.

    A page with a next one may have fewer ids than requested, or none: a target examines a bounded number of rows.
    """

    ids: list[int]
    next: int | None


class WaveCounts(NamedTuple):
    """How many of a job's items have reported success or failure, and how many have reported nothing yet."""

    succeeded: int
    failed: int
    waiting: int


class Laggard(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a rollout that has not reported success. `detail`: what is known about it."""

    item: int
    name: str | None
    wave: int
    state: Literal["waiting", "failed"]
    detail: str | None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The results of the items that were acted on, in order.

    `retry_after_seconds`: the items after those must wait so long, because a limit is reached.
    """

    results: Sequence[ItemResult]
    retry_after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class JobCaller:
    """Who creates a job: the name in audit records, the identities behind it, and whose grants count later."""

    actor: str
    identities: tuple[str, ...]
    allowed: AllowedIds
    person_id: int | None = None
    key_id: int | None = None


@dataclass(frozen=True, slots=True)
class StoredParams:
    """Parameters as they are stored: `shown` to all readers, and sealed secrets."""

    shown: bytes
    sealed: bytes | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What an action needs to know about the job whose items it acts on."""

    job: int
    job_id: str
    actor: str
    identities: tuple[str, ...]
    allowed: AllowedIds
    params: Any
    sealed: bytes | None
    created_at: int
    approved_by: str | None = None
    # The rollout that the job belongs to.
    rollout: int | None = None
    # What `JobAction.make` returned for the items.
    made: Mapping[int, Any] = field(default_factory=dict)


class JobTarget(ABC, Generic[F]):
    """A kind of rows that jobs act on, in the order of their ids."""

    name: ClassVar[str]
    area: ClassVar[Area]
    filter_type: type[F]

    @property
    def given_type(self) -> type:
        """The filter that a person gives: without what an action adds by itself (`JobAction.narrow`)."""
        return self.filter_type

    @abstractmethod
    def check(self, conn: Connection, filters: F, allowed: AllowedIds) -> None:
        """Raise BadInput if the filter names something that does not exist, or that the caller may not see."""

    @abstractmethod
    def scope(self, filters: F, allowed: AllowedIds) -> AllowedIds:
        """The users, sites or clients that a job with this filter is limited to."""

    @abstractmethod
    def count(self, conn: Connection, filters: F, allowed: AllowedIds) -> int: ...

    @abstractmethod
    def sample(self, conn: Connection, filters: F, allowed: AllowedIds, limit: int) -> list[Any]:
        """Some of the rows that match, as the lists of the protocol show them."""

    @abstractmethod
    def newest_id(self, conn: Connection) -> int:
        """The highest id of all rows."""

    @abstractmethod
    def ids_after(self, conn: Connection, filters: F, allowed: AllowedIds, after: int, limit: int) -> IdPage:
        """The next rows that match, in the order of their ids."""

    @abstractmethod
    def record(self, conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
        """Record a change of a job in the audit trail of the protocol."""


class JobAction(ABC, Generic[P]):
    """What a job does with the rows of its target. `name` is unique among the actions of a target."""

    name: ClassVar[str]
    target: JobTarget[Any]
    params_type: type[P]
    batch_items: int = BATCH_ITEMS
    # Whether `plan` and `make` run before the transaction of a batch.
    has_preparation: ClassVar[bool] = False

    def narrow(self, filters: Any) -> Any:
        """The filter with what the action implies, for example that only errored events are released."""
        return filters

    def check(self, conn: Connection, filters: Any, params: P, caller: JobCaller) -> StoredParams:  # noqa: ARG002
        """Check the parameters when the job is created, and return what is stored of them."""
        return StoredParams(msgspec.json.encode(params))

    def request_digest(self, body: bytes) -> bytes:
        """The text by which a repeated request is recognised. It must contain no secret."""
        return body

    def needs_approval(self, conn: Connection, filters: Any, params: P, caller: JobCaller) -> bool:  # noqa: ARG002
        """Whether a second person must approve the whole job before it runs."""
        return False

    def plan(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> Any:  # noqa: ARG002
        """Read what `make` needs, for actions that prepare their items outside a transaction."""
        return None

    def make(self, plan: Any) -> Mapping[int, Any]:  # noqa: ARG002
        """Prepare items in a thread of its own, for example keys. The action finds the results in `Batch.made`."""
        return {}

    @abstractmethod
    def run(self, conn: Connection, batch: Batch, ids: Sequence[int]) -> BatchResult:
        """Act on the items, in this transaction."""

    def outcomes(self, conn: Connection, job: int) -> dict[str, int] | None:  # noqa: ARG002
        """What became of the job's items since, by state, if the action only starts something. None: nothing more."""
        return None

    def item_outcomes(self, conn: Connection, results: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        """The same for some items, by their result."""
        return {}


class RolloutAction(JobAction[P]):
    """An action whose success is known later, from what devices and collectors report. It can be done in waves."""

    # The name of the target and the action that undo it for the items of a rollout; None: it cannot be undone.
    roll_back: ClassVar[tuple[str, str] | None] = None

    def undo_params(self, params: P) -> dict[str, Any]:  # noqa: ARG002
        """The parameters of the action that undoes this one."""
        return {}

    @abstractmethod
    def wave_counts(self, conn: Connection, job: int) -> WaveCounts:
        """What became of the items that the job acted on."""

    @abstractmethod
    def laggards(self, conn: Connection, rollout: int, after: int, limit: int) -> list[Laggard]:
        """Items of a rollout that have not reported success, in the order of their ids."""

    def keep_pace(self, conn: Connection) -> None:
        """Called while a wave waits for reports, if the rollout has `poll_boost`: let reports come sooner."""


class JobActions:
    """All actions of a node, by target and name."""

    def __init__(self, actions: Iterable[JobAction[Any]] = ()) -> None:
        self._actions = {(action.target.name, action.name): action for action in actions}

    def find(self, target: str, name: str) -> JobAction[Any] | None:
        return self._actions.get((target, name))

    def of_target(self, target: str) -> list[JobAction[Any]]:
        """The actions on these rows, in the order in which they were registered."""
        return [action for (each, _name), action in self._actions.items() if each == target]


def id_page(ids: list[int], limit: int) -> IdPage:
    """The page of a query that reads until it has found `limit` ids, or none is left."""
    return IdPage(ids, ids[-1] if len(ids) == limit else None)


def run_each(ids: Sequence[int], work: Callable[[int], ItemResult]) -> BatchResult:
    """Act on each item. One that is refused fails alone; one that a limit stops is tried again later, with the rest."""
    results: list[ItemResult] = []
    for item in ids:
        try:
            results.append(work(item))
        except RetryLater as error:
            return BatchResult(results, max(1, error.retry_after_seconds))
        except RestanteError as error:
            results.append(failed(item, error))
    return BatchResult(results)


def failed(item: int, error: Exception, ref: str | None = None) -> ItemResult:
    return ItemResult(item, "failed", ref, None, str(error)[:ERROR_CHARACTERS_MAX])
