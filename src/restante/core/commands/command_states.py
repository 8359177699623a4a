"""The states of a command as one table: which events each state allows, and the state that follows.

Decides which transitions exist; not when they happen, to which command, or who may cause them. The diagram in the
documentation is generated from the same table.

Invariants: a transition that is not in the table is refused, and no transition leaves a terminal state.
"""

from enum import StrEnum

from restante.core.errors import Conflict


class State(StrEnum):
    pending_approval = "pending_approval"
    pending = "pending"
    dispatched = "dispatched"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    expired = "expired"
    cancelled = "cancelled"


class Event(StrEnum):
    """What can happen to a command. The value is its name in the audit trail.

    An expired lease is `lose_lease` or, with no retry left, `give_up`.
    """

    approve = "approved"
    deny = "denied"
    cancel = "cancelled"
    expire = "expired"
    dispatch = "dispatched"
    run = "started"
    succeed = "succeeded"
    retry = "retried"
    fail = "failed"
    defer = "deferred"
    reject = "rejected"
    lose_lease = "lease_lost"
    give_up = "given_up"


LEASED = frozenset({State.dispatched, State.running})
ACTIVE = frozenset({State.pending_approval, State.pending, *LEASED})
TERMINAL = frozenset({State.succeeded, State.failed, State.expired, State.cancelled})

_WHILE_LEASED = {
    Event.run: State.running,
    Event.succeed: State.succeeded,
    Event.retry: State.pending,
    Event.fail: State.failed,
    Event.defer: State.pending,
    Event.reject: State.failed,
    Event.lose_lease: State.pending,
    Event.give_up: State.failed,
    Event.cancel: State.cancelled,
    Event.expire: State.expired,
}

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.pending_approval, Event.approve): State.pending,
    (State.pending_approval, Event.deny): State.cancelled,
    (State.pending_approval, Event.cancel): State.cancelled,
    (State.pending_approval, Event.expire): State.expired,
    (State.pending, Event.dispatch): State.dispatched,
    (State.pending, Event.cancel): State.cancelled,
    (State.pending, Event.expire): State.expired,
    **{(State.dispatched, event): state for event, state in _WHILE_LEASED.items()},
    **{(State.running, event): state for event, state in _WHILE_LEASED.items()},
}


class NoSuchTransition(Conflict):
    """The state of the command does not allow the event."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a command that is {state.value} cannot be {event.value.replace('_', ' ')}")
        self.state = state
        self.event = event


def next_state(state: str, event: Event) -> State:
    """The state that follows; raise NoSuchTransition if there is none."""
    current = State(state)
    try:
        return TRANSITIONS[current, event]
    except KeyError:
        raise NoSuchTransition(current, event) from None


def diagram() -> str:
    """The table as a mermaid state diagram. Events with the same effect share an arrow."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for (state, event), target in TRANSITIONS.items():
        arrows.setdefault((state, target), []).append(event.value)
    lines = ["stateDiagram-v2", "    [*] --> pending_approval", "    [*] --> pending"]
    lines += [f"    {state} --> {target}: {', '.join(events)}" for (state, target), events in arrows.items()]
    lines += [f"    {state} --> [*]" for state in State if state in TERMINAL]
    return "\n".join(lines) + "\n"
