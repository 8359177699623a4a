"""The life of a command, as one table: in which state what may happen, and where it leads.

Decides which changes of state there are; not when they happen, to which command, or who may cause them. The diagram in
the documentation is drawn from the same table.

Must always hold: what is not in the table does not happen, and nothing leads out of a terminal state.
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
    """What can happen to a command; the value is how it is told of afterwards.

    A lease that ran out is either `lose_lease` or, with no retry left, `give_up`.
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
    """The command's state does not allow this."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a command that is {state.value} cannot be {event.value.replace('_', ' ')}")
        self.state = state
        self.event = event


def next_state(state: str, event: Event) -> State:
    """Where the event leads; NoSuchTransition if nowhere."""
    present = State(state)
    try:
        return TRANSITIONS[present, event]
    except KeyError:
        raise NoSuchTransition(present, event) from None


def diagram() -> str:
    """The table as a mermaid state diagram, events that lead the same way on one arrow."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for (state, event), then in TRANSITIONS.items():
        arrows.setdefault((state, then), []).append(event.value)
    lines = ["stateDiagram-v2", "    [*] --> pending_approval", "    [*] --> pending"]
    lines += [f"    {state} --> {then}: {', '.join(events)}" for (state, then), events in arrows.items()]
    lines += [f"    {state} --> [*]" for state in State if state in TERMINAL]
    return "\n".join(lines) + "\n"
